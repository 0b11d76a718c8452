package jinja

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLimitsStopHostileTemplates(t *testing.T) {
	names := strings.Builder{}
	for i := range 600 {
		fmt.Fprintf(&names, "{%% if a%d %%}{%% set b%d = 1 %%}{%% endif %%}", i, i)
	}
	for what, src := range map[string]string{
		"names":              names.String(),
		"nested loops":       "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
		"repeated text":      "{{ 'a' * 1000000000 }}",
		"repeated list":      "{{ [1] * 1000000000 }}",
		"doubling text":      "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
		"doubling structure": "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
		"doubling comparison": "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(99) %}" +
			"{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}",
		"deep structure": "{% set ns = namespace(x=1) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | tojson }}",
		"cycle":          "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
		"endless macro":  "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"endless loop":   "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"output":         "{% for a in range(100000) %}{{ 'a' * 100000 }}{% endfor %}",
		"replace":        "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}",
		"join":           "{{ range(100000) | join('a' * 100000) }}",
		"width":          "{{ '%999999999s' % 'a' }}",
		"center":         "{{ 'a' | center(9999999999) }}",
		"indent":         "{{ [[[1]]] | tojson(indent=60000000) }}",
		"batch":          "{{ [1] | batch(9999999999, 1) | list }}",
		"range":          "{{ range(9999999) }}",
		"parentheses":    "{{ " + strings.Repeat("(", 20000) + "1" + strings.Repeat(")", 20000) + " }}",
		"blocks":         strings.Repeat("{% if 1 %}", 20000),
		"chain":          "{{ 1" + strings.Repeat("+1", 20000) + " }}",
		"filters":        "{{ 1" + strings.Repeat("|string", 20000) + " }}",
		"dots":           "{{ a" + strings.Repeat(".a", 20000) + " }}",
		"strftime":       "{{ strftime_now('%Y' * 1000000) }}",
		"strftime, long": "{{ strftime_now('%c' * 1000000) }}",
		"compared texts": "{% set s = 'a' * 4000000 %}{% set t = 'a' * 4000000 %}{% for i in range(100000) %}{% set x = s == t %}{% endfor %}",
		"ordered texts":  "{% set s = 'a' * 4000000 %}{% set t = 'a' * 4000000 %}{% for i in range(100000) %}{% set x = s < t %}{% endfor %}",
		"tested texts":   "{% set s = 'a' * 4000000 %}{% for i in range(100000) %}{% set x = s is lower %}{% endfor %}",
		"counted texts":  "{% set s = 'a' * 4000000 %}{% for i in range(100000) %}{% set x = s | length %}{% endfor %}",
		"read numbers":   "{% set s = '9' * 4000000 %}{% for i in range(100000) %}{% set x = s | float %}{% endfor %}",
		"signs":          "{{ " + strings.Repeat("-", 20000) + "1 }}",
		"source":         strings.Repeat("{{ '' }}", 40000),
	} {
		tpl, err := Parse(what, src)
		if err == nil {
			tpl.Limits = Limits{Steps: 500_000, Size: 4 << 20, Depth: DefaultLimits.Depth, Time: DefaultLimits.Time}
			_, err = tpl.Render(nil)
		}
		var e *Error
		if !errors.As(err, &e) || e.Kind != Limit {
			t.Errorf("%s: error %.200v, want one of kind Limit", what, err)
		}
	}
}

// Each operation spends steps for the work that it does, so that a hostile template ends in seconds
// and has the same end on each machine. least is what a hundred thousand letters, items or keys cost.
func TestWorkIsCharged(t *testing.T) {
	for what, c := range map[string]struct {
		src   string
		least int
	}{
		"replace":         {"{% set x = s.replace('q', 'b') %}", 6_000},
		"find":            {"{% set x = s.find('b') %}", 6_000},
		"split":           {"{% set x = s.split('a') %}", 300_000},
		"rsplit":          {"{% set x = s.rsplit('a') %}", 300_000},
		"rsplit at space": {"{% set x = (' a' * 50000).rsplit() %}", 150_000},
		"splitlines":      {"{% set x = ('\n' * 100000).splitlines() %}", 300_000},
		"strip":           {"{% set x = s.strip('a') %}", 12_000},
		"strip by many":   {"{% set x = 'x'.strip(s) %}", 100_000},
		"indent":          {"{% set x = ('\n' * 100000) | indent(0) %}", 300_000},
		"upper":           {"{% set x = s.upper() %}", 12_000},
		"title":           {"{% set x = s.title() %}", 200_000},
		"title filter":    {"{% set x = s | title %}", 200_000},
		"swapcase":        {"{% set x = s.swapcase() %}", 200_000},
		"isalnum":         {"{% set x = s.isalnum() %}", 20_000},
		"isupper":         {"{% set x = s.isupper() %}", 12_000},
		"is lower":        {"{% set x = s is lower %}", 12_000},
		"wordcount":       {"{% set x = s | wordcount %}", 100_000},
		"expandtabs":      {"{% set x = s.expandtabs(0) %}", 25_000},
		"reverse":         {"{% set x = s | reverse %}", 12_000},
		"slice":           {"{% set x = s[1:2] %}", 12_000},
		"tojson":          {"{% set x = s | tojson %}", 25_000},
		"string":          {"{% set x = [s] | string %}", 25_000},
		"format":          {"{% set x = ('{0}' * 100000).format('') %}", 100_000},
		"printf":          {"{% set x = ('%%' * 100000) % () %}", 100_000},
		"printf cut":      {"{% set x = '%.1s' % s %}", 6_000},
		"printf digits":   {"{% set x = '%.100000g' % 1e300 %}", 12_000},
		"strftime":        {"{% set x = strftime_now(s) %}", 50_000},
		"startswith":      {"{% set t = (s,) * 1000 %}{% set x = ('a' * 99999 + 'b').startswith(t) %}", 1_500_000},
		"key":             {"{% set x = {s: 1} %}", 12_000},
		"looked up":       {"{% set x = {}[s] %}", 12_000},
		"not found":       {"{% set x = [][s] %}", 12_000},
		"key of a tuple":  {"{% set x = {(1,) * 100000: 1} %}", 400_000},
		"get of a tuple":  {"{% set x = {}.get((s,)) %}", 12_000},
		"tuple in":        {"{% set x = (s,) in {} %}", 12_000},
		"unique tuples":   {"{% set x = ([(1,) * 1000] * 100) | unique | list %}", 400_000},
		"fromkeys":        {"{% set x = dict.fromkeys(range(100000)) %}", 200_000},
		"keywords":        {"{% set d = dict.fromkeys(range(99999) | map('string')) %}{% set x = dict(**d) %}", 800_000},
		"copy of a dict":  {"{% set d = dict.fromkeys(range(99999)) %}{% set x = d.copy() %}", 600_000},
		"first of items":  {"{% set d = dict.fromkeys(range(99999)) %}{% set x = d.items() | first %}", 300_000},
		"keys of a sort":  {"{% set x = ['a'] | sort(attribute=',' * 99999) %}", 300_000},
		"missing":         {"{% for i in range(99999) %}{% set x = i.y %}{% endfor %}", 600_000},
	} {
		tpl, err := Parse(what, "{% set s = 'a' * 100000 %}"+c.src)
		if err != nil {
			t.Fatal(what, err)
		}
		tpl.Limits.Steps = c.least
		var e *Error
		if _, err = tpl.Render(nil); !errors.As(err, &e) || e.Kind != Limit {
			t.Errorf("%s takes fewer than %d steps: %v", what, c.least, err)
		}
	}
}

// A chat of a million tokens renders with every template of a model that is recorded here.
func TestLongChatsAreWithinTheLimits(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "templates", "*"))
	if err != nil || len(paths) < 5 {
		t.Fatal(len(paths), err)
	}
	text := strings.Repeat("some words of it, ", 100)
	var messages []any
	for range 1100 {
		messages = append(messages, map[string]any{"role": "user", "content": text},
			map[string]any{"role": "assistant", "content": "<think>\n" + text + "\n</think>\n\n" + text})
	}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tpl, err := Parse(filepath.Base(path), string(source))
		if err != nil {
			t.Fatal(err)
		}
		tpl.Limits.Steps /= 2
		_, err = tpl.Render(map[string]any{"messages": messages, "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})
		if e := (*Error)(nil); errors.As(err, &e) && e.Kind == Limit {
			t.Error(err)
		}
	}
}

// A render ends at its time, whatever its steps cost.
func TestTheTimeOfARenderIsBounded(t *testing.T) {
	tpl, err := Parse("slow", "{% for a in range(100000) %}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	tpl.Limits.Time = 1
	var e *Error
	if _, err := tpl.Render(nil); !errors.As(err, &e) || e.Kind != Limit || !strings.Contains(e.Error(), "more than 1ns") {
		t.Errorf("%v, want an error of kind Limit", err)
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	for src, line := range map[string]int{
		"a\nb {{ x.y }}": 2, "{% if true %}\n\n{{ 1 + 'a' }}{% endif %}": 3, "\n{% nope %}": 2,
		"{#\n#}\n{{ raise_exception('x') }}": 3, "\n\n{{ 'a' | nope }}": 3, "{{ [1,\n2]\n| map('upper')\n| sum }}": 4,
		"a\n{% for": 2, "{% macro m() %}\n{{ 1 // 0 }}{% endmacro %}\n\n{{ m() }}": 2,
	} {
		_, err := renderSource("t", src, nil)
		var e *Error
		if !errors.As(err, &e) || e.Line != line || e.Template != "t" {
			t.Errorf("%q: error %v, want line %d", src, err, line)
		}
	}
}

func TestFromJSONConvertsValues(t *testing.T) {
	v, err := FromJSON([]byte(`{"z": 1, "a": [1.0, 12345678901234567890, null, "é"], "z": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	out, err := renderSource("t", "{{ v }}|{{ v | tojson }}", map[string]any{"v": v})
	want := `{'z': 2, 'a': [1.0, 12345678901234567890, None, 'é']}|{"z": 2, "a": [1.0, 12345678901234567890, null, "é"]}`
	if err != nil || out.Text != want {
		t.Errorf("%v %s, want %s", err, out.Text, want)
	}
	for _, bad := range []string{"", "{", "[1] 2", "{1: 2}", "nope", strings.Repeat("[", 20000)} {
		if _, err := FromJSON([]byte(bad)); err == nil {
			t.Errorf("%.20q is accepted", bad)
		}
	}
}
