"""Calls of numpy, as expressions over arrays: `a` and `b` of one shape, `m` a square matrix, `v` a vector, `n` integers,
`i` valid indices of `v`, `k` booleans, `z` complex numbers."""

UFUNCS = (
    "abs ceil floor trunc rint sign sqrt square exp exp2 expm1 log log1p log2 log10 sin cos tan arcsin arccos arctan sinh "
    "cosh tanh arcsinh arccosh arctanh isnan isinf isfinite signbit negative positive reciprocal deg2rad rad2deg cbrt "
    "logical_not fabs spacing conjugate"
).split()
BINARY_UFUNCS = (
    "add subtract multiply divide true_divide floor_divide remainder fmod power maximum minimum fmax fmin arctan2 hypot "
    "copysign nextafter logaddexp logaddexp2 equal not_equal less less_equal greater greater_equal logical_and logical_or "
    "logical_xor heaviside float_power"
).split()
REDUCTIONS = "sum prod mean std var max min argmax argmin any all amax amin ptp count_nonzero".split()
OPERATORS = "+ - * / // % ** == != < <= > >=".split()
METHODS = (
    "a.sum() a.sum(axis=0) a.mean(1) a.std(ddof=1) a.max(axis=1,keepdims=True) a.argmax() a.argmin(0) a.any() a.all(axis=0) "
    "a.reshape(-1) a.reshape(4,3) a.reshape((2,6)) a.T a.T.reshape(-1) a.transpose() a.transpose(1,0) a.ravel() a.flatten() "
    "a.copy() a.astype(np.float32) a.astype('int64') n.astype(float) n.astype(bool) a.clip(-1,1) a.round(1) a.cumsum() "
    "a.cumsum(0) a.cumprod(1) a.dot(b.T) v.dot(v) m.diagonal() m.trace() v.repeat(2) a.squeeze() a[None].squeeze() "
    "a.swapaxes(0,1) v.take(i) v.nonzero() v.searchsorted(0.5) v.tolist() a.real z.real z.imag z.conj() a.nbytes a.ndim "
    "a.size a.itemsize a.dtype a.shape a.strides len(a) v.item(0) v.argsort() v.argsort(kind='stable') a.tobytes() a.fill(3) "
    "a.sort() a.ptp() k.sum() n.prod() v.compress(v>0) a.flat a.base a.flags a.var() a.view(np.int64) abs(a) -a +a ~n ~k "
    "divmod(n,2) round(v.sum()) a.max() int(n.sum()) bool(k.all()) float(v.sum())"
).split()
ITEMS = (
    "a[0] a[-1] a[0,1] a[1:] a[:,1] a[:,1:3] a[...,0] a[None] a[:,None,:] a[::2] a[::-1] v[i] a[[0,2]] a[[0,1],[1,2]] v[v>0] "
    "a[a>0] a[()] a[1][2] v[0] v[n[0,0]] a[0:0] a[np.newaxis,...,1] a[i[:2]] a[(0,1)] v[-3:] v[True] a[5:9]"
).split()
FUNCTIONS = (
    "np.zeros(3) np.zeros((2,3),dtype=np.float32) np.ones(2) np.ones_like(a) np.zeros_like(n) np.full((2,),7) "
    "np.full_like(a,2) np.arange(5) np.arange(1,2,0.25) np.arange(3,dtype=np.int32) np.linspace(0,1,5) np.logspace(0,1,3) "
    "np.eye(3) np.identity(2) np.array([1,2,3]) np.array([1.0,2.0],dtype='float32') np.array([[1,2],[3,4]]) np.array(a) "
    "np.array([v,v]) np.asarray(a) np.asarray([1,2]) np.ascontiguousarray(a.T) np.copy(a) np.concatenate([a,b]) "
    "np.concatenate([a,b],axis=1) np.stack([a,b]) np.stack((a,b),axis=-1) np.vstack([v,v]) np.hstack([v,v]) np.dstack([a,b]) "
    "np.column_stack([v,v]) np.split(v,2) np.array_split(v,3) np.hsplit(a,2) np.vsplit(a[:2],2) np.tile(v,2) np.tile(v,(2,1)) "
    "np.repeat(v,3) np.repeat(a,2,axis=0) np.where(a>0,a,b) np.where(k,1,0) np.where(a>0) np.clip(a,-1,1) np.dot(a,b.T) "
    "np.matmul(a,b.T) a@b.T np.vdot(v,v) np.inner(a,b) np.outer(v,v) np.tensordot(a,b,axes=((0,1),(0,1))) "
    "np.einsum('ij,ij->i',a,b) np.einsum('ij,kj',a,b) np.kron(v,v) np.cross(a[:,:3],b[:,:3]) np.trace(m) np.diag(v) np.diag(m) "
    "np.diagonal(m) np.tril(m) np.triu(m,1) np.transpose(a) np.swapaxes(a,0,1) np.moveaxis(a,0,1) np.expand_dims(a,0) "
    "np.squeeze(a[None]) np.reshape(a,(2,6)) np.ravel(a) np.broadcast_to(v,(2,6)) np.broadcast_arrays(v,np.ones((2,6))) "
    "np.atleast_1d(v) np.atleast_2d(v) np.atleast_3d(a) np.flip(v) np.flip(a,0) np.fliplr(a) np.flipud(a) np.roll(v,2) "
    "np.roll(a,1,axis=0) np.rot90(a) np.sort(v) np.sort(a,axis=0) np.argsort(v) np.argsort(v,kind='stable') np.median(a) "
    "np.median(a,axis=0) np.percentile(v,30) np.quantile(a,0.5,axis=0) np.average(a) np.average(a,axis=0,weights=[1.,2.,3.]) "
    "np.cumsum(a) np.cumprod(a,axis=0) np.diff(v) np.diff(a,axis=0) np.gradient(v) np.prod(a) np.nansum(a) np.nanmean(a) "
    "np.corrcoef(a) np.cov(a) np.histogram(v) np.bincount(i) np.searchsorted(np.sort(v),v) np.unique(n) np.digitize(v,[0.,1.]) "
    "np.take(v,i) np.take(a,[0,2],axis=1) np.take_along_axis(v,i,0) np.choose(i%2,[v,-v]) np.nonzero(v) np.argwhere(v) "
    "np.flatnonzero(v) np.isclose(a,b) np.allclose(a,a) np.array_equal(a,a) np.nan_to_num(a) np.real(z) np.imag(z) np.angle(z) "
    "np.conj(z) np.abs(z) np.iscomplexobj(z) np.isrealobj(a) np.isreal(z) np.iscomplex(z) np.ndim(a) np.shape(a) np.size(a) "
    "np.result_type(a,n) np.can_cast(np.int32,np.float64) np.meshgrid(v,v) np.ix_(i,i) np.tri(3) np.vander(v,3) np.indices((2,2)) "
    "np.pad(v,1) np.append(v,v) np.insert(v,0,1) np.delete(v,0) np.interp(v,[0.,1.],[0.,2.]) np.fmod(a,b) np.sinc(v) np.round(a,1) "
    "np.around(a) np.fix(a) np.i0(v) np.unwrap(v) np.convolve(v,v) np.correlate(v,v) np.bitwise_and(n,3) np.left_shift(n,1) "
    "np.right_shift(n,1) np.invert(n) np.gcd(n,4) np.lcm(n,4) np.ldexp(v,2) np.frexp(v) np.modf(v) np.divmod(n,2) "
    "np.fft.fft(v) np.fft.ifft(z) np.fft.rfft(v) np.fft.fft2(m) np.fft.fftshift(v) np.fft.fftfreq(4) np.linalg.norm(a) "
    "np.linalg.norm(a,axis=0) np.linalg.norm(v,1) np.linalg.det(m) np.linalg.inv(m) np.linalg.solve(m,m[0]) np.linalg.svd(m) "
    "np.linalg.eigvalsh(m) np.linalg.qr(m) np.linalg.cholesky(m@m.T+np.eye(4)*9) np.linalg.matrix_power(m,2) np.linalg.pinv(m) "
    "np.linalg.matrix_rank(m) np.linalg.slogdet(m) np.linalg.multi_dot([m,m,m]) np.random.rand(2) np.float32(2)*v "
    "np.float64(2)+a.astype(np.float32) np.int64(3)*n a.sum()*np.float32(2) a.sum()+b v.sum()/2 n.sum()/2 n/2 n*1.5 n**2 n//2 "
    "n%3 2-n k+k k*2 k&k k|n a+1 1/a a*True a+[1,2,3,4] [1,2,3,4]*a a+(1,2,3,4) np.max(a,axis=0,initial=9.) np.sum(a,where=k) "
    "np.sum(n,dtype=np.float32) np.add(a,b,dtype=np.float32) np.sqrt(n) np.mean(n) np.mean(n,axis=0) np.sin(n) np.exp(k) n.mean() "
    "n.std() np.add.reduce(a) np.add.outer(v,v) np.maximum.accumulate(v) np.vectorize(abs)(v) np.apply_along_axis(sum,0,a) "
    "np.select([v>0,v<0],[v,-v]) np.piecewise(v,[v>0],[1.,2.]) np.s_[1:2] np.finfo(np.float32).max np.iinfo(np.int32).max "
    "np.dtype('float32') np.pi np.inf np.newaxis np.isscalar(3.0) np.float32(3) np.prod((2,3)) np.char.add('a','b')"
).split()
WRITES = (
    "a[0]=1;a a[1:]=a[:-1];a a[:,0]+=1;a a+=1;a a*=b;a a-=a.T[:4].T;a v[i]=0;v v[v>0]=9;v a[0,1]=7;a v[i]+=1;v a.sort();a "
    "a.fill(2);a np.add(a,b,out=a) np.copyto(a,b);a a/=2;a n//=2;n n+=1;n c=a.copy();c+=1;(a,c) c=a[1];c+=1;(a,c) "
    "c=a.reshape(-1);c[0]=5;(a,c) c=a.T;c[0]=5;(a,c) c=a.ravel();c*=2;(a,c) c=a.flatten();c*=2;(a,c) c=a[0];a[0]=1;(a,c) "
    "c=v[0];v[0]=99;(c,v) c=v.sum();v+=1;(c,v) c=a[[0,1]];c+=1;(a,c) c=np.asarray(a);c+=1;(a,c) c=np.array(a);c+=1;(a,c) "
    "np.clip(a,0,1,out=a) np.put(v,i,1);v np.fill_diagonal(m,3);m m[np.diag_indices(4)]=2;m x,y=v[:2];v[0]=5;(x,y,v) "
    "c=np.broadcast_to(v,(2,6));v[0]=1;c c=a.astype(np.float64,copy=False);c+=1;(a,c) a[...]=b;a a[k]=0;a n[0]=2.7;n "
    "a[:]=np.arange(4);a a[1]=[1,2,3,4];a a[2]=v[:4];a a[:2]=1;c=a.sum();a[:2]=2;(c,a) c=a.real;c[0]=1;(a,c)"
).split()

CALLS = (
    [f"np.{name}(a)" for name in UFUNCS]
    + [f"np.{name}(n)" for name in UFUNCS[:20]]
    + [f"np.{name}(a,b)" for name in BINARY_UFUNCS]
    + [f"np.{name}(n,2)" for name in BINARY_UFUNCS[:12]]
    + [f"np.{name}(a)" for name in REDUCTIONS]
    + [f"np.{name}(a,axis=1)" for name in REDUCTIONS]
    + [f"np.{name}(n,axis=0)" for name in REDUCTIONS]
    + [f"a{symbol}b" for symbol in OPERATORS]
    + [f"n{symbol}2" for symbol in OPERATORS]
    + [f"2{symbol}a" for symbol in OPERATORS]
    + METHODS
    + ITEMS
    + FUNCTIONS
    + WRITES
)
