"""Snippets of Jinja with the text that transformers' environment renders.

`jinja.json` has `variables`, one object, and `snippets`, a list of [source, text]
in which the text is null where jinja2 has an error.

The snippets go through Jinja's filters, tests, globals, operators, tags and
loop attributes and through the methods of Python's strings, lists, dictionaries
and numbers that a sandbox allows, each with the arguments that it takes.
"""

import datetime
import json

from transformers.utils.chat_template_utils import _compile_jinja_template

from golden_json import rows

VARIABLES = {
    "s": "  Hello, World!\n  It's a \"test\" \n",
    "word": "hello",
    "empty": "",
    "accents": "Éa ß ŉ 東京 😀",
    "lines": "one\r\ntwo\n\nthree\x0bfour",
    "tabs": "a\tbc\td",
    "number": 42,
    "negative": -7,
    "float": 3.14159,
    "big": 12345678901234567890,
    "yes": True,
    "no": False,
    "none": None,
    "list": [3, 1, 2],
    "words": ["beta", "Alpha", "gamma", "alpha"],
    "mixed": [1, "a", None, True, 2.5, [1], {"k": "v"}],
    "nested": [[1, 2], [3, 4]],
    "dict": {"b": 2, "a": 1, "C": 3},
    "items": [
        {"name": "x", "n": 1, "tags": ["p"]},
        {"name": "y", "n": 2, "tags": []},
        {"name": "z", "n": 1, "at": {"n": 9}},
    ],
    "html": "<a href='x'>1 & 2</a>",
}

# filter: argument lists, for each of the values that it is tried on.
FILTERS = {
    "abs": (["number", "negative", "-2.5", "word", "yes"], [""]),
    "attr": (["dict", "word"], ["('b')", "('nope')"]),
    "batch": (["list", "words", "empty"], ["(2) | list", "(2, 0) | list", "(3, fill_with='x') | list"]),
    "capitalize": (["word", "'hELLO wORLD'", "empty", "accents", "number"], [""]),
    "center": (["word", "'ab'"], ["", "(11)", "(8)", "(width=9)"]),
    "count": (["list", "word", "dict", "number"], [""]),
    "default": (
        ["word", "nope", "none", "empty", "dict.nope", "0"],
        ["('x')", "('x', true)", "", "(default_value='y', boolean=True)"],
    ),
    "d": (["nope"], ["('z')"]),
    "dictsort": (
        ["dict"],
        ["", "(true)", "(by='value')", "(reverse=true)", "(false, 'value', true)", "(by='x')"],
    ),
    "escape": (["html", "number"], [""]),
    "e": (["html"], [" ~ '<'"]),
    "filesizeformat": (
        ["1", "0", "999", "1000", "13000", "1300000", "1300000000", "'100'", "1.5e12"],
        ["", "(true)", "(binary=true)"],
    ),
    "first": (["list", "word", "empty", "dict", "[]"], [""]),
    "float": (["word", "'3.5'", "number", "none", "'1e3'"], ["", "(1.5)", "(default=2)"]),
    "forceescape": (["html", "html | e"], [""]),
    "format": (["'%s-%d'", "'%05.2f|%s'"], ["(1, 2)", "(3.14159, 'x')"]),
    "groupby": (
        ["items"],
        [
            "('n')",
            "('n') | map(attribute='grouper') | list",
            "('at.n', default=0) | length",
            "('name', case_sensitive=true) | map('first') | list",
            "('n') | map('last') | map('length') | list",
        ],
    ),
    "indent": (
        ["'a\\nb\\n\\nc'"],
        ["", "(2)", "(2, true)", "(2, true, true)", "(width=1, blank=true)", "('> ')", "(first=true)"],
    ),
    "int": (["word", "'42'", "'3.9'", "3.9", "none", "'0x1f'", "'  7 '"], ["", "(5)", "(default=6)", "(0, 16)"]),
    "items": (["dict", "nope", "list"], [" | list"]),
    "join": (["list", "words", "mixed", "empty", "word"], ["", "(', ')", "(d='-')"]),
    "last": (["list", "word", "empty", "[]"], [""]),
    "length": (["list", "word", "accents", "dict", "none", "nope", "number"], [""]),
    "list": (["word", "dict", "list", "none", "nope", "number"], [""]),
    "lower": (["'HeLLo'", "accents", "number", "none"], [""]),
    "map": (
        ["items"],
        [
            "(attribute='name') | list",
            "(attribute='at.n') | list",
            "(attribute='nope', default='-') | list",
            "('length') | list",
            "(attribute='tags') | map('join', '+') | list",
            "('nofilter') | list",
            "() | list",
            "(attribute='tags.0', default='none') | list",
        ],
    ),
    "max": (["list", "words", "[]", "word"], ["", "(case_sensitive=true)"]),
    "min": (["list", "words", "[]", "word"], ["", "(true)"]),
    "pprint": (["list", "dict", "word"], [""]),
    "reject": (["list", "mixed"], ["('odd') | list", "('none') | list", "() | list", "('equalto', 1) | list"]),
    "rejectattr": (["items"], ["('tags') | map(attribute='name') | list", "('n', 'equalto', 1) | list | length"]),
    "replace": (["s", "word", "number"], ["('l', 'L')", "('l', 'L', 1)", "('', '-')", "(old='l', new='', count=1)"]),
    "reverse": (["word", "list", "number"], [" | list", ""]),
    "round": (
        ["float", "2.5", "number", "-2.567", "1234.5"],
        ["", "(2)", "(1, 'ceil')", "(1, 'floor')", "(method='ceil')", "(-2)", "(1, 'x')"],
    ),
    "safe": (["html"], [""]),
    "select": (["list", "mixed"], ["('odd') | list", "('string') | list", "() | list", "('in', [1, 2]) | list"]),
    "selectattr": (
        ["items"],
        [
            "('tags') | map(attribute='name') | list",
            "('n', 'gt', 1) | map(attribute='name') | list",
            "('at.n', 'defined') | map(attribute='name') | list",
            "('name', 'in', ['x', 'z']) | list | length",
        ],
    ),
    "slice": (["list", "words", "range(7)"], ["(2) | list", "(3, 'x') | list", "(2, fill_with=0) | list"]),
    "sort": (
        ["list", "words", "items | map(attribute='name')", "dict", "mixed"],
        ["", "(true)", "(reverse=true)", "(case_sensitive=true)"],
    ),
    "string": (["number", "list", "none", "yes", "float", "nope", "1e20", "1e-7"], [""]),
    "striptags": (["html", "'<p>a  b</p>\\n <!-- c --> d'"], [""]),
    "sum": (["list", "[]", "words"], ["", "(start=10)"]),
    "title": (["word", "'hello wORLD foo-bar it\\'s (x)'", "number"], [""]),
    "tojson": (
        ["dict", "mixed", "accents", "html", "none", "[]", "{}", "nested", "1e20", "big", "1e-7", "2.0", "nope"],
        [
            "",
            "(indent=2)",
            "(ensure_ascii=true)",
            "(separators=(',', ':'))",
            "(sort_keys=true)",
            "(true)",
            "(false, 1)",
            "(indent='--')",
            "(indent=0, sort_keys=true, ensure_ascii=true)",
            "(indent=2, separators=(';', ' = '))",
            "(nope=1)",
        ],
    ),
    "trim": (["s", "'xxhixx'", "number"], ["", "('x')", "(chars=' \\n')"]),
    "truncate": (
        ["'The quick brown fox jumps'", "word"],
        ["(11)", "(11, true)", "(11, true, '')", "(20, leeway=0)", "(9, end='~')", "(2)", ""],
    ),
    "unique": (["words", "[1, 1, 2]", "items"], [" | list", "(true) | list", "(attribute='n') | map(attribute='name') | list"]),
    "upper": (["word", "accents", "number"], [""]),
    "urlencode": (["'a b&c/d?é'", "dict", "[('x', 1), ('y z', 'é')]", "number"], [""]),
    "wordcount": (["s", "word", "empty"], [""]),
    "wordwrap": (["'The quick brown fox jumps over'", "lines"], ["(10)", "(7, false)", "(10, wrapstring='|')"]),
    "xmlattr": (["{'class': 'a', 'id': none, 'x': '<'}"], ["", "(false)"]),
    "nofilter": (["word"], [""]),
}
TESTS = {
    "boolean": [""],
    "callable": [""],
    "defined": [""],
    "divisibleby": [" 3"],
    "eq": [" 42"],
    "equalto": ["('hello')"],
    "escaped": [""],
    "even": [""],
    "false": [""],
    "filter": [""],
    "float": [""],
    "ge": [" 2"],
    "gt": [" 2"],
    "greaterthan": [" 2"],
    "in": [" [1, 'hello', none]"],
    "integer": [""],
    "iterable": [""],
    "le": [" 2"],
    "lessthan": [" 2"],
    "lower": [""],
    "lt": [" 2"],
    "mapping": [""],
    "ne": [" 42"],
    "none": [""],
    "number": [""],
    "odd": [""],
    "sameas": [" true"],
    "sequence": [""],
    "string": [""],
    "test": [""],
    "true": [""],
    "undefined": [""],
    "upper": [""],
    "notest": [""],
}
TESTED = ["word", "number", "float", "none", "yes", "list", "dict", "nope"]
MORE_TESTED = ["range", "range(3)", "items | map(attribute='n')", "list[1:]", "dict.items()", "1", "0", "'ABC'", "'lower'", "true", "(1, 2)"]

STRING_METHODS = {
    "capitalize": ["()"],
    "casefold": ["()"],
    "center": ["(15)", "(15, '*')", "(1)"],
    "count": ["('l')", "('')", "('l', 3)", "('l', 0, 4)"],
    "encode": ["()"],
    "endswith": ["('o')", "('')", "(('x', 'o'))", "('l', 0, 4)", "(1)"],
    "expandtabs": ["()", "(4)", "(0)"],
    "find": ["('l')", "('zz')", "('l', 3)", "('l', 0, 2)", "('')"],
    "format": ["()", "(1)"],
    "index": ["('l')", "('zz')"],
    "isalnum": ["()"],
    "isalpha": ["()"],
    "isascii": ["()"],
    "isdecimal": ["()"],
    "isdigit": ["()"],
    "isidentifier": ["()"],
    "islower": ["()"],
    "isnumeric": ["()"],
    "isprintable": ["()"],
    "isspace": ["()"],
    "istitle": ["()"],
    "isupper": ["()"],
    "join": ["(['a', 'b'])", "('xyz')", "([1])", "(dict)"],
    "ljust": ["(8)", "(8, '.')", "(2)", "(8, '..')"],
    "lower": ["()"],
    "lstrip": ["()", "('he ')", "(none)"],
    "partition": ["('l')", "('zz')", "('')"],
    "removeprefix": ["('he')", "('x')"],
    "removesuffix": ["('lo')", "('')"],
    "replace": ["('l', 'L')", "('l', 'L', 1)", "('', '-')", "('l', 'L', -1)", "('l')"],
    "rfind": ["('l')", "('zz')", "('l', 0, 3)"],
    "rindex": ["('l')", "('zz')"],
    "rjust": ["(8)", "(8, '.')"],
    "rpartition": ["('l')", "('zz')"],
    "rsplit": ["()", "('l')", "('l', 1)", "(none, 1)", "(maxsplit=1)"],
    "rstrip": ["()", "('lo')"],
    "split": ["()", "('l')", "('l', 1)", "(none, 1)", "(sep='l', maxsplit=1)", "('')", "(' ')"],
    "splitlines": ["()", "(true)", "(keepends=true)"],
    "startswith": ["('he')", "(('x', 'h'))", "('l', 2)", "('')"],
    "strip": ["()", "('ho')", "(' \\n!')"],
    "swapcase": ["()"],
    "title": ["()"],
    "translate": ["({104: 'J', 101: none})"],
    "upper": ["()"],
    "zfill": ["(8)", "(2)"],
    "nomethod": ["()"],
}
STRINGS = ["word", "s"]
MORE_STRINGS = {
    "isalnum": ["''", "'a1'", "'a 1'", "'é٣'"],
    "isalpha": ["''", "'aé'", "'a1'"],
    "isdecimal": ["'12'", "'²'", "'٣'"],
    "isdigit": ["'12'", "'²'", "'½'", "''"],
    "isnumeric": ["'12'", "'½'", "'五'"],
    "isidentifier": ["'a_1'", "'1a'", "''", "'é'"],
    "isprintable": ["'a b'", "'a\\n'", "''"],
    "isspace": ["' \\t'", "''"],
    "istitle": ["'Hello World'", "'Hello world'", "'A1B'"],
    "isupper": ["'AB 1'", "'1'"],
    "islower": ["'ab 1'", "'1'"],
    "swapcase": ["accents", "'aB'"],
    "casefold": ["accents"],
    "lower": ["accents"],
    "upper": ["accents"],
    "title": ["\"it's o'neil-x 3rd\"", "accents"],
    "capitalize": ["accents", "''"],
    "splitlines": ["lines", "''", "'a\\n'", "'a\\r\\nb\\rc'", "'a\\u2028b'"],
    "expandtabs": ["tabs", "'\\t\\n\\ta'"],
    "zfill": ["'-42'", "'+7'", "''"],
    "split": ["'  a  b '", "'a,b,,c'", "lines", "''"],
    "rsplit": ["'  a  b c'", "'a.b.c'"],
    "strip": ["'\\u00a0x\\u3000'", "'abcba'"],
    "find": ["accents"],
    "center": ["'ab'", "'abc'"],
}
LIST_METHODS = {
    "count": ["(1)", "('x')"],
    "index": ["(1)", "(9)"],
    "copy": ["()"],
    "append": ["(1)"],
    "pop": ["()"],
    "reverse": ["()"],
    "sort": ["()"],
    "extend": ["([1])"],
    "insert": ["(0, 1)"],
    "clear": ["()"],
    "remove": ["(1)"],
}
DICT_METHODS = {
    "get": ["('a')", "('x')", "('x', 5)"],
    "items": ["()", "() | list", "() | length"],
    "keys": ["()", "() | list", "() | join(',')"],
    "values": ["()", "() | list", "() | sum"],
    "copy": ["()"],
    "pop": ["('a')"],
    "update": ["({})"],
    "setdefault": ["('a', 1)"],
    "clear": ["()"],
    "popitem": ["()"],
    "fromkeys": ["(['p', 'q'])", "(['p'], 1)"],
}
EXPRESSIONS = """
1 + 2 | 7 // 2 | -7 // 2 | 7 % 3 | -7 % 3 | 7 / 2 | 4 / 2 | 2 ** 10 | 2 ** -1 | 2.0 ** 3 | 7.5 // 2 | 7.5 % 2 | 1 / 0 | 1 // 0 | 1 % 0
'a' + 'b' | 'a' + 1 | 1 + 'a' | 'a' * 3 | 3 * 'a' | 'a' * 0 | 'a' * -1 | [1] * 2 | 2 * [0, 1] | [1] + [2] | (1,) + (2,) | [1] + (2,) | dict + dict
1 + true | true + true | not 1 | not '' | -number | +number | -float | - -1 | -word | 2 - 'a'
'%s' % 'a' | '%s and %s' % ('a', 'b') | '%d%%' % 5 | '%(a)s' % dict | '%.2f' % float | '%5d|' % 42 | '%-5s|' % 'ab' | '%05d' % 42 | '%x' % 255 | '%s' % list | '%r' % 'a' | '%s' % none | '%e' % 12345.678 | '%d' % 'a' | '%s %s' % 'a' | 'no' % () | 'a%sb' % 1 + 'c' | '%s' % 1 * 2 | 10 % 4 * 2 | 2 * 10 % 4 | 'x' ~ '%s' % 3
'{}'.format(1) | '{0} {1} {0}'.format('a', 'b') | '{x}'.format(x=1) | '{:>5}|'.format('a') | '{:05.1f}'.format(3.14159) | '{!r}'.format('a') | '{{}}'.format() | '{}'.format() | '{:,}'.format(1234567) | '{:x}'.format(255) | '{:.1%}'.format(0.256) | '{a[b]}'.format(a={'b': 1}) | '{:^7}|'.format('ab') | '{:*<6}'.format('ab') | '{:+d}'.format(5) | '{:e}'.format(1234.5) | '{:b}'.format(5) | '{0[0]}'.format([7]) | '{:d}'.format('a') | '{}'.format(none) | '{}'.format([1, 'a']) | '{}'.format(true) | '{:.3}'.format('abcdef') | '{}'.format(1e20) | '{x.real}'.format(x=1)
1 < 2 | 'a' < 'b' | [1, 2] < [1, 3] | 1 < 'a' | none < 1 | 1 == 1.0 | 1 == true | '1' == 1 | [1] == [1] | (1,) == [1] | {'a': 1} == {'a': 1.0} | none == nope | nope == nope | 1 != 2 | 1 < 2 < 3 | 1 < 3 < 2 | 3 > 2 > 1 | 1 == 1 == 1
1 in [1] | 'a' in 'abc' | 'a' not in 'abc' | 'a' in dict | 1 in nope | 1 in none | 'x' in {} | none in [none] | 1 in 'a' | '' in 'a' | not 1 in [1] | true in [1] | 1.0 in [1]
true and false | 1 and 2 | 0 or 'x' | '' or none | not none | nope or 'd' | nope and 1 | not nope | (1 and '') or 'z' | 1 if true else 2 | 1 if false | (1 if false) is undefined | 'a' if nope else 'b'
word[0] | word[-1] | word[9] | word[1:3] | word[:-1] | word[::-1] | word[1:] | word[::2] | word[-3:-1] | word[3:1] | word[4:1:-1] | word[:0:-1] | word[-2::-1] | word[0:9:-1] | word[10:] | word[-10:2] | word[::0] | word[none:2] | word['a'] | word[1.5] | word[::-2] | word[1::-1] | word[:-3:-1]
list[0] | list[-1] | list[9] | list[1:] | list[::-1] | list[:2] | list[:-1] | list[2:0:-1] | list[-1:] | list[5:] | list['a'] | list[0:2:-1] | list[1:][0] | list[::-1][0] | list[:0] | list[-9:1] | list[:0:-1] | (1, 2, 3)[1:] | (1, 2)[::-1] | (1, 2)[0] | range(5)[1:3] | range(5)[::-1] | range(5)[-1] | none[1:] | nope[1:] | 5[1:] | dict[1:]
dict.a | dict['a'] | dict.nope | dict['nope'] | dict[0] | dict.nope.x | nope.x | nope['x'] | none.x | none['x'] | 5 .x | word.x | dict.items | dict.items is defined | dict['items'] is defined | word.upper is defined | list.append is defined | dict.get is callable | items[0].name | items[0]['n'] | items[2].at.n | items.0.name | nope.x is defined | dict.x.y is defined | none.x is defined | items[0]['at'] is defined | dict.keys is callable | dict.items.x | dict.items is mapping
none | true | false | True | False | None | nope | 1.0 | 1e3 | 1.5e300 | 1e16 | 1e15 | 1e17 | 123456789012345680.0 | 0.0001 | 0.00001 | 1e-5 | 0.1 + 0.2 | 1/3 | 100000000000000000000 | 2 ** 64 | 1_000 | 0x1f | 0b11 | 0o17 | -0.0 | 1e400 | big + 1 | 2 ** 200
list | dict | mixed | nested | () | (1,) | (1, 2) | [] | {} | ['it\\'s'] | ['say "x"'] | ['a\\nb\\t\\\\'] | ['é😀'] | ["a'b\\"c"] | [none, true, 1.0] | [nope] | {'a': none} | {1: 2} | {none: 1} | {'a': [1, {'b': ()}]} | [1e20, 1e-7] | ['\\x00\\x7f'] | ['\\u200b'] | [word] | [word | upper] | {'x': word[1:]} | [dict.items()] | [range(3)]
'a' ~ 1 ~ none ~ true | 1 ~ 2 | 'a' ~ list | 'a' ~ nope | 1.0 ~ '' | 1e20 ~ '' | [1] ~ {'a': 'b'} | (1,) ~ ''
'a' 'b' | 'a\\tb' | "a\\'b" | 'a\\\\b' | '\\x41' | '\\u00e9' | '\\U0001F600' | '\\101' | '\\q' | '\\N{BULLET}' | '\\0' | 'a
b'
word is string and word is not number | word is defined and nope is not defined | word is in ['hello'] | not word is string | number is divisibleby(2) | number is divisibleby 2 and true | 3 is odd == true | word is eq 'hello' | word is not none | none is none | list is iterable and list is not mapping and list is not string
range(3) | range(3) is sequence | 2 in range(3) | range('a') | range(3) == range(3)
namespace(a=1).a | namespace(a=1).b | namespace({'a': 1}).a | namespace(_a=1) | dict(a=1) | namespace() | cycler(1, 2).next() | joiner(', ')() | lipsum is callable | cycler('a', 'b').current | raise_exception is callable | strftime_now is callable | now is defined | loop is defined | self is defined | caller is defined
5 .bit_length() | (5).real | float.is_integer() | (2.0).is_integer() | number.bit_length() | (255).to_bytes | (2.5).as_integer_ratio() | (3).conjugate()
strftime_now('%Y-%m-%d') | strftime_now('%d %B %Y') | strftime_now('%b %-d, %A %a %j %H:%M:%S %p %I %y %m %%') | strftime_now('%e|%D|%F|%T|%U|%w|%c|%x|%X') | strftime_now('')
(word, number) | (word, number)[1] | [word, number,] | {'a': 1,} | {'a': 1}['a'] | [1, 2][1] | {'a': {'b': [10, 20]}}.a.b[1] | (1) | ((1)) | [[1], [2]][0][0] | {word: 1} | {'a': 1, 'a': 2}
"""
# " | " stands between the snippets of the table above, so that those with filters have their own.
PIPES = """
list[1:] | length
list | first + 1
word | upper ~ '!'
(-1) | abs
-1 | abs
not word | length
2 | string ~ 3
word.upper() | lower
word | replace('l', 'L') | length > 3
1 + word | length
word is string | upper
range(3) | list
range(1, 4) | list
range(0, 10, 3) | list
range(3, 0, -1) | list
range(0) | list
range(5, 1) | list
range(3) | length
range(1, 3) | sum
range(10, 0, -3) | join(',')
range(3) | first
range(3) | last
(word if yes else none) | upper
word | map('upper') | list
words | map('upper') | join(' ')
words | map('replace', 'a', 'b') | list
words | sort | first
words | select('startswith', 'a') | list
nested | sum(start=[])
nested | map('first') | list
items | sum(attribute='n')
items | map(attribute='n') | unique | list
items | sort(attribute='n,name') | map(attribute='name') | join
items | sort(attribute='name', reverse=true) | map(attribute='name') | join
items | join('|', attribute='name')
items | max(attribute='n')
items | min(attribute='n')
dict | dictsort | map('first') | list
items | map('tojson') | join(' ')
dict.items() | sort
dict | list | sort
words | map('length') | sum
[3, 1] | sort | list | last
words | reverse | first
dict | items | first
dict.keys() | sort | join
dict.values() | max
[1, [2]] | tojson
(1, 2) | tojson
dict.items() | list | tojson
range(2) | tojson
list[1:] | tojson
dict.keys() | tojson
'\\u2028\\x7f' | tojson
'\\x7fé' | tojson(ensure_ascii=true)
'😀' | tojson(ensure_ascii=true)
{'a': []} | tojson(indent=2)
[[]] | tojson(indent=1)
{'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true)
float | tojson
1e16 | tojson
1e22 | tojson
0.00001 | tojson
[1, 2] | tojson(separators=[',', ':'])
word | tojson(2)
word | tojson(indent=none)
'%s' % word | upper
'%s' | format('a') | upper
word | trim | length % 2
word[1:] | upper
(word ~ '!')[1:] | upper
words | map('first') | map('lower') | list
items | map(attribute='name') | map('upper') | select('in', 'XY') | join
items | selectattr('n', '==', 1) | map(attribute='name') | join
items | groupby('n') | map(attribute='list') | map('length') | list
items | rejectattr('at', 'undefined') | map(attribute='name') | join
words | map('trim') | reject('equalto', 'beta') | list
"""
STATEMENTS = [
    "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for x in list %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in list %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
    "{% for x in items %}{% if loop.previtem and loop.previtem.n == 1 %}after{% endif %}{% if loop.nextitem is defined and loop.nextitem.n == 1 %}before{% endif %}|{% endfor %}",
    "{% for x in list if x > 1 %}{{ loop.index }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.last }} {% endfor %}",
    "{% for x in [1, 1, 2] %}{{ loop.changed(x) }} {% endfor %}",
    "{% for x in list %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in list %}{{ loop.cycle() }}{% endfor %}",
    "{% for x in list %}{{ loop.cycle(*[]) }}{% endfor %}",
    "{% for x in nested %}{% for y in x %}{{ loop.depth }}{{ loop.depth0 }}{{ y }} {% endfor %}{% endfor %}",
    "{% for x in [[1, [2]], 3] recursive %}{{ loop(x) if x is iterable else x }}d{{ loop.depth }} {% endfor %}",
    "{% for x in nested %}{% set outer = loop %}{% for y in x %}{{ outer.index }}.{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for x in [] %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in nope %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in none %}{{ x }}{% endfor %}",
    "{% for x in 5 %}{{ x }}{% endfor %}",
    "{% for x in word %}{{ x }}-{% endfor %}",
    "{% for k in dict %}{{ k }}{% endfor %}",
    "{% for k, v in dict.items() %}{{ k }}={{ v }}{{ ',' if not loop.last }}{% endfor %}",
    "{% for k, v in dict | items %}{{ k }}={{ v }} {% endfor %}",
    "{% for k, v in dict | dictsort %}{{ k }}={{ v }} {% endfor %}",
    "{% for a, b in nested %}{{ a + b }} {% endfor %}",
    "{% for a, b in list %}{{ a }}{% endfor %}",
    "{% for x in list | reverse %}{{ x }}{{ loop.last }}{% endfor %}",
    "{% for x in list[::-1] %}{{ x }}{{ loop.last }}{% endfor %}",
    "{% for x in items | selectattr('n', 'equalto', 1) %}{{ x.name }}{{ loop.last }}{{ loop.length }}{% endfor %}",
    "{% for x in items | map(attribute='name') %}{{ x }}{{ loop.last }}{{ loop.nextitem }}{% endfor %}",
    "{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in list %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in list %}{% set y = x %}{% endfor %}{{ y is defined }}",
    "{% set y = 0 %}{% for x in list %}{% set y = y + x %}{% endfor %}{{ y }}",
    "{% set ns = namespace(y=0) %}{% for x in list %}{% set ns.y = ns.y + x %}{% endfor %}{{ ns.y }}",
    "{% set ns = namespace() %}{% set ns._x = 1 %}{{ ns._x }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = [1, 2, 3] %}{{ a }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set x %}a{{ word }}b{% endset %}{{ x }}{{ x is string }}{{ x | length }}",
    "{% set x | upper %}a{{ word }}{% endset %}{{ x }}",
    "{% set dict.a = 5 %}{{ dict.a }}",
    "{% if nope %}a{% elif none %}b{% else %}c{% endif %}",
    "{% if list and dict %}a{% endif %}{% if [] or {} or '' or 0 or 0.0 or none %}b{% endif %}",
    "{% if true %}{% set q = 1 %}{% endif %}{{ q }}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}",
    "{% filter upper %}abc{{ word }}{% endfilter %}",
    "{% macro m(a, b='d', c=none) %}[{{ a }}|{{ b }}|{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(a=1, c=3) }}{{ m() }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}x{{ word }}{% endcall %}",
    "{% macro m() %}<{{ caller(1) }}>{% endmacro %}{% call(a) m() %}x{{ a }}{% endcall %}",
    "{% macro m(a) %}{{ a }}{{ m.name }}{{ m.arguments }}{% endmacro %}{{ m(1) }}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro f() %}{{ later }}{% endmacro %}{% set later = 1 %}{{ f() }}",
    "{% macro f() %}  a {% endmacro %}{{ f() | trim }}{{ f() | length }}{{ f() is string }}{{ f()[2] }}",
    "{% macro f(x) %}{{ x }}{% endmacro %}{{ list | map('string') | join }}{{ f(x=[1]) }}{{ f is callable }}",
    "{% macro a(x) %}{{ b(x) }}{% endmacro %}{% macro b(x) %}{{ x * 2 }}{% endmacro %}{{ a(2) }}",
    "{% macro a(x=number) %}{{ x }}{% endmacro %}{{ a() }}",
    "{% macro a(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ a(1) }}",
    "{% raw %}{{ x }}{% endraw %}",
    "{% raw %}{% generation %}{% endraw %}",
    "{%- raw -%} {{ x }} {%- endraw -%} y",
    "a {%- if true -%} b {%- endif -%} c",
    "a\n{% if true %}\nb\n{% endif %}\nc",
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n",
    "a\n  {%+ if true %}\n  b\n  {%+ endif +%}\nc\n\n",
    "a\n  {# comment #}\nb",
    "a {# comment #} b\n",
    "a\n  {{ word }}\n  b\n",
    "a\n  {{- word -}}\n  b\n",
    "a {{ word }}\n{{ number }}\n",
    "  {% set x = 1 %}\n\n  {{ x }}\n",
    "\n{% if true %}a{% endif %}   \nb",
    "a{% if true %}  {% endif %}\n\nb",
    "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc\r\n",
    "a\rb\r\nc\nd\r",
    "{{ 'a\r\nb' }}",
    "{{ 'a\\r\\nb' }}",
    "{% set x = '{% raw %}' %}{{ x }}",
    "{{ '}}' }}{{ \"{{\" }}{{ '{#' }}",
    "{{ {'a': {'b': 1}} }}",
    "{{ {'a': {'b': 1}}.a.b}}",
    "{#- a -#} b {#- c -#} ",
    "{% for x in list -%}\n  {{ x }}\n{%- endfor %}",
    "{% generation %}{{ word }}{% endgeneration %}",
    "a\n{% generation %}\nb\n{% endgeneration %}\nc",
    "a\n  {%- generation -%}\n b {{ word }}\n{%- endgeneration -%}\nc",
    "a\n  {%+ generation %} b{% endgeneration +%}\nc",
    "{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q is defined }}",
    "{% for x in list %}{% generation %}{{ loop.index }}{{ x }}{% endgeneration %}{% endfor %}",
    "{% set generation = 3 %}{{ generation }}",
    "{# {% generation %} #}{{ '{% generation %}' }}",
    "{%generation%}x{%endgeneration%}",
    "{% generation %}x",
    "{% generation x %}a{% endgeneration %}",
    "{% set a = 1 %}{% set a = a + 1 %}{{ a }}",
    "{% set list = list[1:] %}{{ list }}",
    "{% do list.append(1) %}",
    "{% include 'x' %}",
    "{% extends 'x' %}",
    "{% import 'x' as y %}",
    "{% block a %}x{% endblock %}",
    "{% trans %}x{% endtrans %}",
    "{% debug %}",
    "{% autoescape true %}{{ html }}{% endautoescape %}",
    "{% unknown %}",
    "{{ nope.x.y }}",
    "{{ nope() }}",
    "{{ word() }}",
    "{{ raise_exception('x') }}",
    "{% if false %}{{ 'a' | nofilter }}{% endif %}x",
    "{% if false %}{{ 1 is notest }}{% endif %}x",
    "{{ }}",
    "{{ word",
    "{% if %}",
    "{% endif %}",
    "{{ [1, 2 }}",
    "{{ 1 2 }}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}",
    "{% set j = joiner() %}{{ j() }}a{{ j() }}b{{ j() }}",
    "{% set j = joiner('|') %}{% for x in list %}{{ j() }}{{ x }}{% endfor %}",
    "{{ dict.update({'z': 1}) }}",
    "{{ dict(a=1, b=[2]) }}{{ dict({'x': 1}, y=2) }}",
    "{{ list.__class__ }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ word.format.__globals__ }}",
    "{% set m = {'role': 'user'} %}{{ m.role }}{{ m['content'] is defined }}{{ 'content' in m }}{{ m.get('content', 'none') }}",
    "{% for m in items %}{% if 'at' in m and m.at is mapping %}{{ m.at.items() | list }}{% endif %}{% endfor %}",
    "{% for x in list %}{{ loop }}{% endfor %}",
    "{{ loop }}",
    "{{ (1, 2) in [(1, 2)] }}{{ (1, 2) == (1, 2) }}{{ [1, 2] == list[1:] }}{{ list[1:] == [1, 2] }}",
    "{{ list[1:] is sequence }}{{ list[1:] is string }}{{ list[1:].count(1) }}{{ list[1:] + [5] }}",
    "{{ (list + [4])[3] }}{{ (list + [4]) | length }}{{ (list + [4]) is sequence }}{{ [0] + list }}",
    "{{ (dict | items | list)[0][0] }}{{ dict.items() is iterable }}{{ dict.keys() is sequence }}",
    "{{ 'a,b'.split(',')[1] }}{{ 'a,b'.split(',') | last }}{{ 'a,b'.split(',')[-1].upper() }}",
    "{{ ('a' ~ 'b').upper() }}{{ 'x'.join(['a', 'b']).title() }}{{ ' a '.strip() + 'b' }}",
    "{{ '</think>' in 'x</think>y' }}{{ 'x</think>\n\ny'.split('</think>')[-1].lstrip('\n') }}",
    "{% set x = none %}{{ x is none }}{{ x is defined }}{{ x | default('a') }}{{ x or 'b' }}",
    "{{ 1 if word }}{{ 2 if nope }}|{{ (2 if nope) is defined }}",
    "{{ word if word is string else word | tojson }}",
    "{%- for x in list %}\n{{- x }}\n{%- endfor %}\n",
    "{% for x in list %}\n{{ x }}\n{% endfor %}\n",
    "{%   if   true   %}x{%   endif   %}",
    "{{word}}{{ word|upper }}{{word|upper|lower}}",
    "{% if not(word) %}a{% else %}b{% endif %}{% if(word) %}c{% endif %}",
    "{% set x = {'a': 1, 'b': [1, 2,],} %}{{ x }}",
    "{%- set x = [\n  1,\n  2\n] -%}\n{{ x }}",
    "{{ -1 }}{{ - 1 }}{{ 1 -1 }}{{ 1 - -1 }}{{ +1 }}{{ not not 1 }}",
    "{{ 2 ** 3 ** 2 }}{{ -2 ** 2 }}{{ (2 ** 3) ** 2 }}{{ 2 + 3 * 4 // 5 % 3 }}",
    "{{ 1 + 2 ~ 3 + 4 }}{{ 1 ~ 2 * 3 }}{{ 'a' ~ 'b' == 'ab' }}",
    "{% set x = 5 if no else 6 %}{{ x }}{% set y = list if list is not string and list | length > 2 else [] %}{{ y }}",
]


def snippets():
    """All snippets, each once."""
    found = []
    for name, (values, arguments) in FILTERS.items():
        found += [f"{{{{ {value} | {name}{argument} }}}}" for value in values for argument in arguments]
    for name, arguments in TESTS.items():
        for argument in arguments:
            found += [f"{{{{ {value} is {name}{argument} }}}}" for value in TESTED]
    for name in ("iterable", "sequence", "mapping", "callable", "string", "number", "integer", "boolean", "filter", "upper", "true", "odd"):
        found += [f"{{{{ {value} is {name} }}}}" for value in MORE_TESTED]
    for name, arguments in STRING_METHODS.items():
        values = STRINGS + MORE_STRINGS.get(name, [])
        found += [f"{{{{ [{value}.{name}{argument}] }}}}" for value in values for argument in arguments]
    for name, arguments in LIST_METHODS.items():
        found += [f"{{{{ {value}.{name}{argument} }}}}" for value in ("list", "(3, 1)") for argument in arguments]
    for name, arguments in DICT_METHODS.items():
        found += [f"{{{{ dict.{name}{argument} }}}}" for argument in arguments]
    for line in EXPRESSIONS.strip().replace("'a\nb'", "'a\x00b'").split("\n"):
        found += [f"{{{{ {one.strip()} }}}}".replace("\x00", "\n") for one in line.split(" | ")]
    found += [f"{{{{ {one} }}}}" for one in PIPES.strip().split("\n")]
    return list(dict.fromkeys(found + STATEMENTS))


class Clock(datetime.datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz=None):
        return cls(2026, 10, 5, 14, 7, 9)


def render(source):
    """The text, or None where jinja2 has an error."""
    try:
        return _compile_jinja_template(source).render(**json.loads(json.dumps(VARIABLES)))
    except Exception:
        return None


def write(out):
    """Writes jinja.json."""
    import transformers.utils.chat_template_utils as utils

    utils.datetime = Clock
    cases = [[source, render(source)] for source in snippets()]
    # An address in memory is not compared.
    cases = [case for case in cases if " at 0x" not in (case[1] or "")]
    variables = json.dumps(VARIABLES, ensure_ascii=False)
    text = f'{{\n"variables": {variables},\n"snippets": {rows(cases)}\n}}\n'
    (out / "jinja.json").write_text(text, encoding="utf-8")
    errors = sum(text is None for _, text in cases)
    print(f"jinja.json: {len(cases)} snippets, {errors} of them errors")


if __name__ == "__main__":
    import pathlib

    write(pathlib.Path(__file__).parent)
