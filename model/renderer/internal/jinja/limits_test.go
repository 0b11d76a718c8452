package jinja

import (
	"errors"
	"strings"
	"testing"
)

func TestLimitsStopHostileTemplates(t *testing.T) {
	for what, src := range map[string]string{
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
