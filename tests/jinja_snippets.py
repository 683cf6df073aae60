# SPDX-License-Identifier: Apache-2.0
"""Snippets of Jinja for template_test.py: expressions, whitespace, statements; and a maker of random templates."""

import random

VARIABLES = {
    "x": 7, "y": -3, "f": 2.5, "s": "Hello, Wörld", "empty": "", "t": True, "n": None, "u": "straße ÀÉ ß",
    "l": [3, 1, 2], "words": ["b", "A", "c", "a"], "d": {"b": 1, "a": [1, 2.0, None, True], "C": "x"},
    "rows": [{"k": "v1", "n": {"m": 2}}, {"k": "v0", "n": {"m": 1}}, {"k": "v1", "z": 0}],
    "emoji": "a😀b\u0301c", "lines": "one\n\n two\r\nthree\n", "esc": "<a href='x'>\"&\\\t\u2028\x07</a>",
}

EXPRESSIONS = """
1 + 2 * 3|1 - -1|7 // 2|-7 // 2|-7 % 3|7 % -3|7 / 2|2 ** 10|2 ** -1|2 ** 3 ** 2|-2 ** 2|7.5 // 2|-7.5 % 2|1e16|1e15|1e-5|0.0001
1.0|100000.0 * 10000000000|0.1 + 0.2|1_000|0x1F|0b101|0o17|10 / 5|'a' * 3|3 * 'ab'|[1, 2] * 2|[1] + [2]|(1,) + (2,)|(1,)|()|(1, 2)
'a' ~ 1 ~ none ~ true ~ 1.5|'a' 'b'|"a\\n\\t\\x41\\u00e9\\101"|'it\\'s'|"q\\q"|{'a': 1, 'b': [1, 'x']}|{1: 2, 'a': none, (1, 2): 3}|[1, 2.0, 'x', none, true]
1 < 2 < 3|1 < 3 < 2|1 == 1.0|true == 1|'a' < 'b'|[1, 2] < [1, 3]|1 != 2|'a' in 'abc'|'z' not in 'abc'|2 in [1, 2]|'a' in d|'a' in {}
x is defined|zz is defined|zz is undefined|n is none|x is number|x is integer|f is float|t is boolean|t is integer|t is number|s is string|d is mapping|l is iterable
s is iterable|x is iterable|l is sequence|d is sequence|s is sequence|x is odd|x is even|x is divisibleby 7|x is divisibleby(2)|x is eq 7|x is equalto(8)|x is gt 3|x is lessthan 3
x is in [7]|x is not in [7]|t is true|t is false|n is sameas none|'abc' is lower|'ABC' is upper|zz is not defined|s is callable|range is callable|x is ne 7|x is ge 7|x is le 7
not x|not n|x and y|n or 'd'|n and x|x if t else y|x if n else y|x if n|(x if n) is defined|'a' if n else 'b' if t else 'c'
s|upper;s|lower;s|title;u|upper;u|title;u|capitalize;u.title();s|length;emoji|length;emoji[1];emoji[-1];emoji[1:3];emoji[::-1];s[1:];s[:-1];s[::2];s[100:];l[0];l[-1];l[1:];l[::-1];l[5]
l[5] is defined;d.a;d['a'];d.zz;d.zz is defined;d['C'];d.a[1];d.a.0;rows[0].n.m;rows[2].n;d.items()|list;d.keys()|list;d.values()|list;d.items();d|items|list;d.get('a');d.get('q');d.get('q', 5)
l|first;l|last;l|sort;l|sort(reverse=true);words|sort;words|sort(case_sensitive=true);l|sum;l|min;l|max;words|max;l|join(', ');l|join;words|map('upper')|list;words|map('upper')|join('-')
rows|map(attribute='k')|list;rows|map(attribute='n.m', default='?')|list;rows|map(attribute='z')|list;rows|selectattr('n')|list|length;rows|selectattr('k', 'equalto', 'v1')|list|length
rows|rejectattr('z', 'defined')|map(attribute='k')|join(',');l|select('odd')|list;l|reject('odd')|list;l|select|list;[0, 1, '', 'a']|select|list;l|select('gt', 1)|list;rows|sort(attribute='k')|map(attribute='k')|list
words|unique|list;l|reverse|list;s|reverse;d|dictsort;d|dictsort(reverse=true);d|dictsort(by='key', case_sensitive=true);l|batch(2)|list;l|batch(2, 'x')|list;l|slice(2)|list;l|slice(2, 0)|list
d|tojson;d|tojson(indent=2);esc|tojson;u|tojson;u|tojson(ensure_ascii=true);emoji|tojson(ensure_ascii=true);d|tojson(sort_keys=true);d|tojson(separators=(',', ':'));[]|tojson(indent=4);{}|tojson(indent=4);[[], {}]|tojson(indent=1);{1: 2, none: 3, true: 4, 1.5: 6}|tojson;1.0|tojson;(1, 2)|tojson;'x'|tojson(indent=2)
none|tojson;true|tojson;[1, [2, {'a': {}}]]|tojson(indent=0);d|string;l|string;esc|string|length;[esc];['it\\'s', "q\\"'"];n|string;x|string ~ 'a';1.5|string
' a b '|trim;'xxaxx'|trim('x');s|replace('l', 'L');s|replace('l', 'L', 1);'aaa'|replace('', '-');zz|default('d');empty|default('d');empty|default('d', true);n|default('d');n|d('q', true);zz|d
'12'|int;'1.9'|int;'x'|int;'x'|int(5);'0x1f'|int(base=16);2.9|int;-2.9|int;true|int;none|int;'1_000'|int;' 7 '|int;'1.5'|float;'x'|float;'x'|float(2.0);'inf'|float;3|float;-3|abs;2.5|round;3.5|round;2.675|round(2);1234|round(-2);1.25|round(1);2.1|round(0, 'ceil');2.9|round(method='floor');5|round
lines|indent;lines|indent(2, true);lines|indent(2, blank=true);lines|indent('> ', true, true);'a b c'|wordcount;s|wordcount;'ab'|center(7);'ab'|center(8);'foo bar baz qux'|truncate(9);'foo bar baz qux'|truncate(9, true);'foo bar baz'|truncate(11);'foo bar baz qux'|truncate(9, false, '..', 0)
esc|escape;esc|e;'%s-%d'|format('a', 3);'%05.2f|%x|%5s|%-5s|'|format(3.14159, 255, 'ab', 'cd');'%(a)s'|format(a=1);'%s' % x;'%s %s' % (1, 2);'{} {}'.format(1, 'a');'{0}-{a}-{0}'.format(1, a=2);'{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}'.format('a', 'b', 'c', 42, 3.14159, 1234567);'{{}}'.format();'{!r}'.format('a')
' a '.strip();'xay'.strip('xy');' a'.lstrip();'a '.rstrip();'a,b,c'.split(',');'a,b,c'.split(',', 1);'a,b,c'.rsplit(',', 1);' a  b '.split();' a  b c '.split(none, 1);' a b c '.rsplit(none, 1);lines.splitlines();lines.splitlines(true);'a-b-c'.partition('-');'a-b-c'.rpartition('-');'abc'.partition('z')
s.upper();s.lower();'they\\'re bill\\'s'.title();'hELLO wORLD'.capitalize();s.startswith('He');s.startswith(('x', 'H'));s.endswith('d');s.find('l');s.rfind('l');s.find('zz');s.find('l', 4);s.index('W');s.count('l');s.replace('l', 'L', 2);'-'.join(['a', 'b']);'12'.isdigit();'1a'.isdigit();'ab'.isalpha();'a1'.isalnum();' '.isspace();'Ab'.swapcase();'7'.zfill(3);'-7'.zfill(4);'a'.ljust(3) ~ '|';'a'.rjust(3);'a'.center(4) ~ '|';'abc'.removeprefix('a');'abc'.removesuffix('c')
''.isdigit();'ABC'.isupper();'abc'.islower();'ΑΣ'.lower();'ΑΣ ΣΑ'.lower();'ŉ'.upper();'ﬁ'.upper();'İ'.lower();'ǆ'.title();'ÿ'.upper();'²'.isdigit();'²'.isdecimal();'½'.isnumeric();'½'.isalnum();'½'.isdigit();'٣'.isdecimal();'Ⅷ'.isnumeric()
'ß'.casefold();'ŉΰ'.casefold();'Ab İ'.casefold();'αΣ'.capitalize();'ασ ΑΣ ΑΣ.'.title();'ας ΑΣ'.swapcase();'text' % [1];'text' % {};'text' % range(3);'%#06x|%#x|%-#8xz' % (255, 255, 255);'{:#06x}|{:#x}|{:>#8x}'.format(255, 255, 255);'{:5}|{:05}'.format(true, 7);'%.3s|%.9s' % ('äöüß', 'äöüß');'{:.2}'.format('äöüß');'{:5}'.format(1.5)
{(1, 'a'): 2}[(1, 'a')];(1, ('a', 2)) in {(1, ('a', 2)): 0};(1, ('a', 3)) in {(1, ('a', 2)): 0};('a', ('b',)) in {('a', 'b'): 0};[(1, 2), (1, 2), (1, (2,))]|unique|list
range(3)|list;range(1, 7, 2)|list;range(3, 0, -1)|list;range(3);range(1, 7, 2);range(5)[1:3]|list;range(3)[-1];range(0)|list;3 in range(5);dict(a=1, b=2);dict({'a': 1}, b=2);dict([('a', 1)])|tojson;namespace(a=1).a
zz;zz ~ 'a';zz|length;zz|list;zz|join;zz|upper;zz|trim;zz|string;zz|first is defined;zz == zz;zz == none;'a' in zz;zz is none;zz is iterable;not zz;[zz];{'a': zz}|length;zz|tojson|length
n;t;true;True;None;[none, true];n.x is defined;x.y is defined;s.nope is defined;l.nope is defined;l.append is defined;d.update is defined;l.index(1);l.count(3);(1, 2, 1).count(1);d.__class__ is defined;s.upper is defined
loop is defined;messages is defined;1 in [1.0];'1' in ['1', 2];{'a': 1} == {'a': 1.0};[1, 2] == (1, 2);(1, 2) == (1, 2);none == none;'a' == 1;1 is sameas true;[] is sameas [];{} or 'e';[] or 'e';'' or 'e';0 or 'e';0.0 or 'e'
words|map('length')|sum;words|map('replace', 'b', 'B')|list;rows|sum(attribute='z') is defined;[1.5, 2]|sum;[[1], [2]]|sum(start=[]);[]|sum;[]|first is defined;[]|max is defined;d|length;d|list;d|first;d|join;'abc'|list;'abc'|first;'abc'|last;(l|map('string')|list)[0];(l|map('string')) is iterable;1 if (l|select('gt', 99)) else 2;d|count
d[[1]] is defined;d[{}] is defined;d[l] is none;[1] in d;(esc|safe) + '<b>';'<' + ('a'|e);'<'|e|e;('%s %s'|safe) % ('<', 3);('%s'|safe) % '<';('<'|safe) is escaped;'<' is escaped;[('a'|safe)];('<b>'|safe)[0:1] + '<';(s|safe).upper() + '<';(s|safe)|trim + '<';'<'|forceescape|forceescape;('<br>'|safe).join(['<x>', 'y']);('a<b'|safe).replace('a', '<');('<a> <b>'|safe).split()[0] + '<';('<a-b'|safe).partition('-')[0] + '<';('<a>'|safe) * 2 + '<';('<b>{}</b>{x}'|safe).format('<x>', x='&');('<'|safe) ~ '<';'a-b-c-d'.rsplit('-', 2);'a--b--c'.rsplit('--');'aaa'.rsplit('aa');'aaaa'.count('aa');('<'|safe) == '<';d|tojson|safe + '</s>';'%d' is divisibleby 2;'%d' is even
'ΑΣ.Σ Σ ΑΣ\'Σ'|lower;'ΣΣΣ'|lower;'Α.Σ.'|lower;('ab' * 40).rfind('ab' * 33);('ab' * 40).find('ba' * 33);('xy' * 40 ~ 'z').rpartition('xy' * 35)|length;'aa'.split('aaa');('a' * 70).replace('a' * 35, 'b');'b' * 5 in 'a' * 3 ~ 'b' * 6
""".strip()


def split_expressions():
    """Lines use | between expressions where none holds a filter, ; otherwise."""
    for line in EXPRESSIONS.splitlines():
        yield from line.split(";" if ";" in line else "|")


EXPRESSION_TEMPLATES = ["{{ " + expression + " }}" for expression in split_expressions()]

STATEMENTS = [
    "{% for i in l %}{% with a = i %}{% if a == 1 %}{% break %}{% endif %}{{ a }}{% endwith %}{% endfor %}",
    "{% for i in l %}{% with a = i %}{% if a == 1 %}{% continue %}{% endif %}{{ a }}{% endwith %}|{% endfor %}",
    "{% for i in l %}{% set z %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endset %}{{ z }}|{% endfor %}",
    "{% for i in l %}{% filter upper %}a{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfilter %}|{% endfor %}",
    "{% for i in l %}{{ i }}{% break %}{% else %}none{% endfor %}", "{% for i in l %}{% continue %}{% else %}none{% endfor %}",
    "{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% else %}none{% endfor %}",
    "{% for j in l %}{% for i in l %}{% break %}{% else %}{% break %}{% endfor %}{{ j }}{% endfor %}",
    "{% set ns = namespace(s=[]) %}{% for i in [1, 1, 2] if i not in ns.s %}{{ i }}{% set ns.s = ns.s + [i] %}{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for i in l if i > ns.n %}{% set ns.n = i %}{% else %}none{% endfor %}{{ ns.n }}",
    "{% for i in l if i > 9 %}{{ i }}{% else %}none{% endfor %}{% for i in l if i > 1 %}{{ loop.index }}{{ loop.last }}{% endfor %}",
    "{% for i in l if i != 1 %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% else %}none{% endfor %}",
    "{% macro m() %}<{% endmacro %}{{ m() + ('a'|e) }}", "{% set a = '<'|safe %}{{ a + '<' }}{{ a ~ '<' }}{{ a }}",
    "{% if x %}a{% elif y %}b{% else %}c{% endif %}", "{% if n %}a{% elif y %}b{% else %}c{% endif %}",
    "{% for i in l %}{{ i }},{% else %}none{% endfor %}", "{% for i in [] %}{{ i }}{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for (a, b) in [(1, 2), [3, 4]] %}{{ a + b }} {% endfor %}",
    "{% for i in l if i > 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% endfor %}",
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}|{% endfor %}",
    "{% for i in l %}{{ loop.previtem }}-{{ loop.nextitem }}{{ loop.previtem is defined }}{{ loop.cycle('a', 'b') }} {% endfor %}",
    "{% for i in [1, 1, 2, 2, 1] %}{{ loop.changed(i) }} {% endfor %}", "{% for c in emoji %}[{{ c }}]{% endfor %}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for a in l %}{% for b in l %}{% if b == 2 %}{% break %}{% endif %}{{ a }}{{ b }} {% endfor %}{{ loop.index }}{% endfor %}",
    "{% for i in zz %}a{% else %}b{% endfor %}", "{% for i in d %}{{ i }}{% endfor %}", "{% for i in 'abc' %}{{ i }}.{% endfor %}",
    "{% set a = 1 %}{% for i in l %}{% set a = a + i %}{{ a }}{% endfor %}{{ a }}",
    "{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}{{ ns['a'] }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = b = 1 %}", "{% set a = 1, 2 %}{{ a }}", "{% set a %}x{{ x }}y{% endset %}{{ a }}{{ a|length }}",
    "{% set a | upper | replace('X', 'z') %}x{{ s }}y{% endset %}{{ a }}", "{% if x %}{% set q = 5 %}{% endif %}{{ q }}",
    "{% macro m(a, b=2, c='z') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, c=3) }}|{{ m() }}|{{ m(1, 2, 3) }}|{{ m.name }}",
    "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}", "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(3) }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in{{ x }}{% endcall %}", "{% macro m() %}[{{ caller(1, 2) }}]{% endmacro %}{% call(a, b) m() %}{{ a + b }}{% endcall %}",
    "{% macro f(n) %}{% if n > 1 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro m() %}{{ x }}{{ later }}{% endmacro %}{% set later = 9 %}{{ m() }}",
    "{% macro m(a) %}{% set x = a %}{{ x }}{% endmacro %}{{ m(1) }}{{ x }}", "{% macro m() %}a{% endmacro %}{{ m() ~ 'b' }}{{ m()|upper }}{{ m(1) }}", "{% macro m() %}a{% endmacro %}{{ m(q=1) }}",
    "{% filter upper %}abc{{ s }}{% endfilter %}", "{% filter indent(2) | upper %}a\nb{% endfilter %}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}",
    "{% raw %}{{ x }}{% if %}{% endraw %}!", "a{#- comment -#} b", "a {# comment #}\n b", "{# a\nb #}\n  c", "{{ x }}\n", "{{ x }}\n\n", "a\r\nb\r\n", "\n", "",
    "  {% if x %}\n  a\n  {% endif %}\n  b", "  {%- if x -%}\n  a\n  {%- endif -%}\n  b", "  {%+ if x +%}\n  a\n  {%+ endif +%}\n  b", "a\n  {% set q = 1 %}\n\n  b", "a {% set q = 1 %} b",
    "a\n\t {{ x }}\n b", "a\n\t {{- x -}}\n b", "{% for i in l %}\n  {{ i }}\n{% endfor %}\nend", "{% for i in l -%}\n  {{ i }}\n{%- endfor %}\nend", "\n  {# c #}\n  a", "\n  {#- c #}\n  a", "a  {% raw %} \n b {% endraw %}\n c",
    "a\n  {% raw -%} \n b\n  {%- endraw %}\n c", "{% raw %}\n x\n   {% endraw %}\n c", "a\n  {%- raw %} b {% endraw -%}\n c", "{%if x%}y{%endif%}", "{{x}}{{ y}}{{s }}", "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ {'a': {}} }}", "{{ '}}' }}{{ \"%}\" }}",
    "{% set a = {'x': 1} %}{{ a.x }}", "{{ l.append(1) }}", "{{ d.update({'a': 1}) }}", "{{ zz.a }}", "{{ zz() }}", "{{ zz + 1 }}", "{{ x.y.z }}", "{{ none + 1 }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ x|nofilter }}", "{{ x is notest }}", "{% if n %}{{ x|nofilter }}{% endif %}ok", "{% nope %}", "{% if x %}", "{{ x",
    "{{ raise_exception('no!') }}", "{% for i in n %}{% endfor %}", "{% for i in x %}{% endfor %}", "{{ x[1:2] }}", "{{ 1 / 0 }}", "{{ l|tojson(indent='--') }}", "{{ range(10 ** 9) }}", "{{ x() }}", "{% break %}", "{{ 'a' < 1 }}", "{{ [1, 'a']|sort }}", "{{ {[]: 1} }}", "{{ 'a'.nope() }}", "{{ x is defined is none }}",
    "{% for m in rows %}{% if loop.first %}F{% endif %}{{ m['k'] }}{% if not loop.last %}, {% endif %}{% endfor %}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('; ') %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}",
    "{% set m = rows|selectattr('k', 'eq', 'v1') %}{{ m|first }}{{ m|list|length }}", "{% set g = l|map('string') %}{% for i in g %}{{ i }}{% endfor %}{% for i in g %}{{ i }}{% endfor %}", "{{ l|map('string')|length }}", "{{ m|default(l)|join(',') }}",
    "{{ 1 if x }}{{ '' if n }}{{ (1 if n) ~ 'x' }}", "{{ x, y }}", "{{ (x, y)[0] }}", "{% for i in 1, 2 %}{{ i }}{% endfor %}", "{{ d['a'][0:2] }}{{ d.a[::-1] }}", "{% if 'a' in d and d.a is iterable and d.a is not mapping %}yes{% endif %}", "{% generation %}a{{ x }}{% set q = 1 %}{% endgeneration %}{{ q }}",
    "{% if not (x is defined and y) %}a{% else %}b{% endif %}", "{{ -x|abs }}{{ (-x)|abs }}{{ -2 ** 2 }}", "{{ not x == 7 }}", "{{ x == 7 and not n }}", "{{ 'a' ~ 1 + 2 }}", "{{ 2 * 3 ~ 4 }}", "{{ d|tojson|length > 5 }}", "{{ s|length + 1 }}", "{{ 'x' in s|lower }}", "{{ [x, y]|map('abs')|list }}",
]


def random_template(seed):
    """A template that Jinja2 may render or refuse; both must agree."""
    rng = random.Random(seed)
    pick = rng.choice
    atoms = ["x", "y", "f", "s", "empty", "t", "n", "l", "words", "d", "rows", "zz", "1", "2", "'a b'", "[1, 'q']", "{'k': x}", "i", "q", "lines", "emoji"]
    filters = ["upper", "trim", "length", "tojson", "string", "list", "first", "last", "join(', ')", "default('z')", "int", "sort", "reverse|list", "title", "map('string')|list", "select|list", "indent", "replace('a', 'o')", "tojson(indent=1)", "unique|list"]
    tests = ["defined", "none", "string", "number", "iterable", "mapping", "sequence", "odd", "true", "in [1, 2]", "boolean"]

    def expr(depth):
        kind = rng.randrange(11) if depth > 0 else 0
        if kind <= 2:
            return pick(atoms)
        if kind == 3:
            return f"{expr(depth - 1)} {pick(['+', '-', '*', '~', '%', '//', '/'])} {expr(depth - 1)}"
        if kind == 4:
            return f"({expr(depth - 1)})|{pick(filters)}"
        if kind == 5:
            return f"{expr(depth - 1)} {pick(['==', '!=', '<', '>=', 'in', 'not in', 'and', 'or'])} {expr(depth - 1)}"
        if kind == 6:
            return f"({expr(depth - 1)} is {pick(['', 'not '])}{pick(tests)})"
        if kind == 7:
            return f"({expr(depth - 1)} if {expr(depth - 1)} else {expr(depth - 1)})"
        if kind == 8:
            # Not of literals: Jinja2 folds those, and an impossible slice is then undefined instead of a failure.
            return f"{pick(['x', 's', 'l', 'd', 'rows', 'words', 'zz', 'emoji', 'q'])}[{pick(['0', '-1', '1:', ':-1', '::-1', chr(39) + 'k' + chr(39)])}]"
        if kind == 9:
            return f"s.{pick(['split()', 'upper()', 'strip(chr)', 'find(' + chr(39) + 'l' + chr(39) + ')', 'startswith(s)'])}"
        return f"[{expr(depth - 1)}, {expr(depth - 1)}]"

    def blank():
        return pick(["", " ", "\n", "\n  ", "  \n\n ", "text", " a\n b ", "\t"])

    def tag(body):
        return "{%" + pick(["", "", "-", "+"]) + f" {body} " + pick(["", "", "-", "+"]) + "%}"

    def piece(depth):
        kind = rng.randrange(9) if depth > 0 else rng.randrange(3)
        if kind == 0:
            return blank()
        if kind <= 2:
            return "{{" + pick(["", "-"]) + f" {expr(2)} " + pick(["", "-"]) + "}}"
        if kind == 3:
            return tag(f"if {expr(2)}") + pieces(depth - 1) + tag("else") + pieces(depth - 1) + tag("endif")
        if kind == 4:
            return tag(f"for i in {pick(['l', 'words', 'd', 'rows', 'range(3)', 's[:3]', 'zz', 'd.items()'])}") + pieces(depth - 1) + tag("endfor")
        if kind == 5:
            return tag(f"set q = {expr(2)}")
        if kind == 6:
            return "{#" + pick(["", "-"]) + blank() + pick(["", "-", "+"]) + "#}"
        if kind == 7:
            return tag("set q") + pieces(depth - 1) + tag("endset")
        return tag("filter upper") + pieces(depth - 1) + tag("endfilter")

    def pieces(depth):
        return "".join(piece(depth) + blank() for _ in range(rng.randrange(1, 4)))

    return pieces(3)
