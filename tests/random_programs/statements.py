"""The statements of random programs: weight, where they are allowed, template."""

ASSIGNMENTS = [
    (14, "", "<=tensor> = <tensor>"),
    (5, "", "<=int> = <int>"),
    (2, "", "<=bool> = <bool>"),
    (1, "", "<=str> = <str>"),
    (1, "", "<=float> = <float>"),
    (3, "", "<=tensors> = <tensors>"),
    (2, "", "<=ints> = <ints>"),
    (2, "", "<=table> = <table>"),
    (2, "", "<=named> = <named>"),
    (1, "", "<=pair> = <pair>"),
    (1, "", "<=queue> = <queue>"),
    (1, "", "<=marks> = <marks>"),
    (1, "", "<=counts> = <counts>"),
    (2, "", "<=fn> = <fn>"),
    (2, "", "<=gen> = <gen>"),
    (2, "", "<=obj> = <obj>"),
    (1, "", "<=tensors> = <@tensors>"),
    (1, "", "<=obj> = <@obj>"),
    (2, "", "<=tensor>, <=int> = <pair>"),
    (1, "", "<=tensor>, *<=tensors> = [<tensor>, *<tensors>]"),
    (1, "", "<=tensor> = <=tensor> = <tensor>"),
    (1, "", "(<=tensor>, <=int>), <=tensor> = <pair>, <tensor>"),
    (2, "value", "<~tensor1>, <~tensor2> = <~tensor2>, <~tensor1>"),
    (1, "", "<=int>, <=int> = sorted([<int>, <int>])"),
    (1, "", "del <@tensors1>[:<int>]"),
]

CHANGES = [
    (3, "change", "<@tensors>.append(<tensor>)"),
    (1, "change", "<@tensors>.extend((<tensors>)[:2])"),
    (1, "change", "<@tensors>.insert(0, <tensor>)"),
    (1, "change", "<=tensor> = <@tensors>.pop()"),
    (1, "change", "<@tensors>[0] = <tensor>"),
    (1, "change", "<@tensors>.reverse()"),
    (1, "change", "<@tensors>[1:2] = <tensors>"),
    (2, "change", "<@ints>.append(<int>)"),
    (1, "change", "<@ints>.sort()"),
    (1, "change", "<@ints>[-1] += <int>"),
    (1, "change", "<@ints>.remove(<int>)"),
    (3, "change", "<@table>[<str>] = <int>"),
    (1, "change", "<@table>[<str>] += <int>"),
    (1, "change", "<@table>.update(b=<int>)"),
    (1, "change", "<=int> = <@table>.pop(<str>, <int>)"),
    (1, "change", "<=int> = <@table>.setdefault(<str>, <int>)"),
    (1, "change", "del <@table>[<str>]"),
    (2, "change", "<@named>[<str>] = <tensor>"),
    (1, "change", "<@named>['a'] += <tensor>"),
    (1, "change", "<@queue>.append(<tensor>)"),
    (1, "change", "<@queue>.appendleft(<tensor>)"),
    (1, "change", "<=tensor> = <@queue>.popleft()"),
    (1, "change", "<@queue>.rotate(1)"),
    (1, "change", "<@marks>.add(<int>)"),
    (1, "change", "<@marks>.discard(<int>)"),
    (2, "change", "<@counts>[<str>] += <int>"),
    (3, "change", "<@obj>.n = <int>"),
    (3, "change", "<@obj>.t = <tensor>"),
    (2, "change", "<@obj>.n += 1"),
    (1, "change", "<@obj>.t += <tensor>"),
    (1, "change", "<@obj>.level = <int>"),
    (1, "change", "<@obj>.extra = <plain>"),
    (1, "change", "del <@obj>.extra"),
    (1, "change", "setattr(<@obj>, 'n', <int>)"),
    (1, "change", "<@obj>.scaled = <tensor>"),
    (1, "change", "<@obj>[<int>] = <tensor>"),
    (1, "change", "Thing.level = <int>"),
    (1, "change", "Thing.changed = lambda self, t: t * self.n + <int>"),
    (1, "change", "<=tensor> = <@obj>.changed(<tensor>)"),
    (1, "change", "<=tensor> = scaled_once(<@tensor>)"),
    (1, "change", "listed_once(<int> % 4).append(<int>)"),
    (1, "change", "listed_once.cache_clear()"),
    (1, "change", "<=str> = str(listed_once.cache_info()) + str(filled_once.cache_info())"),
    (2, "change", "<@obj>.items.append(<tensor>)"),
    (1, "change", "<@fn>.mark = <int>"),
    (2, "change", "<@self>.n += <int>"),
    (2, "change", "<@self>.t = <tensor>"),
    (1, "change", "<@self>.items.append(<tensor>)"),
    (2, "change", "<!int> = <int>"),
    (2, "change", "<!int> += 1"),
    (2, "change", "<!tensor> = <tensor>"),
    (1, "change", "<!tensors> = <tensors>"),
    (2, "change nested", "<^int> += 1"),
    (2, "change nested", "<^tensor> = <tensor>"),
    (2, "change", "<~tensor> += <tensor>"),
    (1, "change", "<~tensor> *= <int>"),
    (2, "change", "<@tensor>.add_(<tensor>)"),
    (1, "change", "<@tensor>.mul_(<int>)"),
    (1, "change", "<@tensor>[0] = <int>"),
    (1, "change", "<@tensor>[1:].add_(<int>)"),
    (1, "change", "<@tensor>.view(-1)[0] += <int>"),
    (1, "change", "<@tensor>.detach().mul_(<int>)"),
    (
        1,
        "change",
        """
with torch.no_grad():
    <@tensor>.mul_(<int>)
""",
    ),
    (1, "change", "torch.add(<tensor>, <tensor>, out=<@tensor>)"),
    (1, "change", "<~int> += 1"),
    (1, "change", "<@module>.seen += 1"),
    (1, "change", "<@module>.last = <tensor>"),
    (1, "change", "<@module>.offset.add_(1)"),
]

OPAQUE = [
    (3, "", "print(<plain>, <plain>)"),
    (1, "", "print('at', sys._getframe().f_lineno, sep=<str>)"),
    (2, "", "_logger.info('%s', <plain>)"),
    (1, "", "warnings.warn('w' + str(<int>))"),
    (1, "", "warn_caller(<int>)"),
    (1, "", "SEEN.append(stack())"),
    (1, "", "SEEN.append(sorted(locals()))"),
    (2, "", "<=tensor> = opaque(<tensor>, <int>)"),
    (1, "", "opaque_change(<@tensors>)"),
    (1, "", "opaque_raise(<int>)"),
    (1, "", "<=int> = opaque_call(<fn>, <tensor>)"),
    (1, "", "torch._dynamo.graph_break()"),
    (1, "", "torch.manual_seed(<int> % 5)"),
    (1, "", "<=int> = random.randint(0, 3)"),
    (1, "", "<=float> = <tensor>.sum().item()"),
]

CONTROL = [
    (5, "", """
if <bool>:
    <block>
"""),
    (4, "", """
if <cond>:
    <block>
else:
    <block>
"""),
    (1, "", """
if (<=int> := <int>) > <int>:
    <block>
"""),
    (1, "", """
if (<=tensor> := <tensor>).sum() > <int>:
    <block>
"""),
    (2, "", """
if <bool>:
    <block>
elif <cond>:
    <block>
else:
    <block>
"""),
    (1, "", """
match <int>:
    case 0:
        <block>
    case 1 | 2:
        <block>
    case _:
        <block>
"""),
    (1, "", """
match <@obj>:
    case Thing(n=0, t=<=tensor1>) | Guarded(t=<=tensor1>):
        <block>
    case Sub(n=<=int>, extra=<?>) if <bool>:
        <block>
    case collections.abc.Sized():
        <block>
"""),
    (1, "", """
match <table>:
    case {'a': <=int>, **rest} if len(rest) > 1:
        <block>
    case {'b': 0 | 1} | {}:
        <block>
"""),
    (1, "", """
match <ints>:
    case [<=int>, *_, <?>]:
        <block>
    case [] | [_]:
        <block>
"""),
    (4, "", """
for <=int> in range(<int> % 4):
    <block>
"""),
    (2, "", """
for <=tensor> in <@tensors1>:
    if len(<@tensors1>) > 8: break
    <block>
"""),
    (2, "", """
for <=int>, <=tensor> in enumerate(list(<tensors>)):
    <block>
else:
    <block>
"""),
    (2, "", """
for <=str>, <=int> in <@table>.items():
    <block>
"""),
    (1, "", """
for <=str>, <=int> in list(<table>.items()):
    <block>
"""),
    (1, "", """
for <=str> in <@named>:
    <block>
"""),
    (2, "", """
for <=int>, <=tensor> in zip(<ints>[:4], <tensors>):
    <block>
"""),
    (2, "", """
for <=tensor> in produce(<tensor>, <int> % 3):
    <block>
"""),
    (1, "", """
for <=tensor> in itertools.islice(<@gen>, 4):
    <block>
"""),
    (1, "", """
for <=tensor> in <@gen>:
    <=tensor> = <tensor>
"""),
    (1, "", """
for <=tensor> in (<{><tensor><}> for <&int1> in range(2)):
    <block>
"""),
    (1, "", """
for <=tensor> in <@obj>:
    <block>
"""),
    (1, "", """
for <=tensor> in <tensor>:
    <=tensor> = <tensor>
    <block>
"""),
    (2, "", """
<?1> = 0
while <?1> < <int> % 4:
    <?1> += 1
    <block>
"""),
    (1, "", """
<?1> = 0
while <?1> < 3 and <cond>:
    <?1> += 1
    <block>
else:
    <block>
"""),
    (2, "loop", "if <bool>: break"),
    (1, "loop", "if <cond>: break"),
    (2, "loop", "if <bool>: continue"),
    (1, "loop", "if <cond>: continue"),
    (2, "value", "if <bool>: return <tensor>"),
    (1, "value", "if <cond>: return <tensor>"),
    (3, "", """
with <manager>:
    <block>
"""),
    (2, "", """
with Guarded(<int>) as <=obj>:
    <block>
"""),
    (1, "", """
with marked(<int>) as <=int>:
    <block>
"""),
    (1, "", """
@dataclasses.dataclass
class <?1>:
    t: object
    n: int = <int>
    ts: list = dataclasses.field(default_factory=list)
    def apply(self, t):
        <block>
        return <tensor> * self.n
<?2> = <?1>(<tensor>, ts=<tensors>)
<?2>.n += <int>
<=tensor> = <?2>.apply(<tensor>) + len(<?2>.ts)
SEEN.append((<?1>(1) == <?1>(<int>), repr(<?1>(2)), <?1>(3).ts))
"""),
    (2, "", """
class <?1>:
    level = <int>
    def __init__(self, t, n=<int>):
        self.t, self.n = t, n
        <block>
    def apply(self, t, n=1):
        <block>
        return <tensor> + self.t * self.level
    def __add__(self, t):
        return self.t + t
    @property
    def scaled(self):
        return <tensor> * self.n
    @scaled.setter
    def scaled(self, t):
        self.t = <tensor>
    @classmethod
    def made(cls, t):
        cls.level += 1
        return cls(t)
    @staticmethod
    def plain(t):
        return <tensor>
<?2> = <?1>(<tensor>)
<?2>.scaled = <tensor>
<=tensor> = <?2>.apply(<tensor>, <int>) + <?2>.scaled
<?2>.n += <int>
SEEN.append((<?1>.__name__, <?1>.level, len(<?1>.__mro__), isinstance(<?2>, Thing)))
<=tensor> = <?1>.made(<tensor>) + <?1>.plain(<tensor>)
"""),
    (3, "nested", """
def <=fn>(t, n=<int>):
    <block>
    return <tensor>
"""),
    (3, "value", """
def <=fn>(t, n=<int>, *rest, **named):
    <block>
    return <tensor>
"""),
    (1, "value", """
def <?1>(n):
    yield <tensor>
    <block>
    n2 = yield <tensor>
    yield <tensor> * (n2 or 1)
<=gen> = <?1>(<int>)
"""),
    (1, "", """
<=gen> = echo(<tensor>)
<=tensor> = next(<@gen>)
<=tensor> = <@gen>.send(<int>)
"""),
    (1, "", "<=tensor> = drive(slowly(<tensor>, <int>))"),
    (1, "", "<=int> = bisect.bisect([1, 3, 5], <int>)"),
    (1, "", "<=int> = heapq.nsmallest(1, [<int>, <int>, <int>])[0]"),
    (1, "", "<=int> = random.Random(<int>).choice([<int>, <int>, <int>])"),
    (1, "", """
with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    <block>
"""),
    (1, "", """
with threading.Lock():
    <block>
"""),
    (1, "", "<=tensor> = drive(gather_slowly(<tensor>, <int>))"),
    (1, "", """
import operator
<=tensor> = operator.add(<tensor>, <int>)
"""),
    (1, "", """
from collections import Counter, OrderedDict as Ordered
<=table> = Ordered(a=<int>, b=len(Counter(<ints>)))
"""),
    (1, "", "<=str> = f'''{<int>!r:>4}|{<str>!s}|{<int>:03d}'''"),
    (1, "", """
try:
    <=tensor> = <@gen>.throw(ValueError('thrown'))
except (ValueError, StopIteration, RuntimeError) as error:
    print(type(error).__name__, error)
"""),
    (3, "generator", "yield <tensor>"),
    (1, "generator", "yield from <gen>"),
]  # fmt: skip

EXCEPTIONS = [
    (4, "", """
try:
    <block>
except <error>:
    <block>
"""),
    (2, "", """
try:
    <block>
except <error> as error:
    print(type(error).__name__, error)
    <block>
else:
    <block>
"""),
    (2, "", """
try:
    <block>
finally:
    <block>
"""),
    (1, "", """
try:
    <block>
except <error>:
    <block>
    raise
finally:
    <block>
"""),
    (1, "", """
try:
    <block>
except <error> as error:
    raise Custom(<plain>) from error
"""),
    (1, "", """
try:
    raise Custom(<plain>)
except Custom as error:
    SEEN.append(error.__traceback__.tb_lineno)
    <=tensors> = [<tensor>, *error.args[1:]]
"""),
    (1, "", """
try:
    opaque_raise(<int>)
except Custom as error:
    print([entry.lineno for entry in traceback.extract_tb(error.__traceback__)])
    <block>
"""),
    (1, "", """
try:
    <block>
    raise ExceptionGroup('group', [Custom(<plain>), ExceptionGroup('inner', [ValueError(<int>), KeyError(<str>)])])
except* (Custom, KeyError) as group:
    print(group.message, len(group.exceptions))
    <=tensor> = <tensor>
except* ValueError:
    <=tensor> = <tensor>
    print(<plain>)
"""),
    (1, "", """
try:
    <block>
except* <error>:
    <=int> = <int>
"""),
    (2, "", "if <bool>: raise <error_made>"),
    (1, "", "if <cond>: raise <error_made>"),
    (1, "", "assert <bool>, <plain>"),
    (1, "", "<=int> = 4 // (<int>)"),
    (1, "", "<=tensor> = <tensor> @ torch.ones(<int> % 3 + 2)"),
    (1, "", "<=int> = refuse(<int>)"),
]  # fmt: skip

STATEMENTS = ASSIGNMENTS + CHANGES + OPAQUE + CONTROL + EXCEPTIONS
