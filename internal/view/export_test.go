package view

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// A page in HTML shows what a model wrote as text.
func TestExport(t *testing.T) {
	html, err := Export(written(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<details open><summary>Train step 7: 3 answers", "<h3>Task a, explorer step 3</h3>", "run 0: reward 1, advantage",
		`<span class="up3" title="place 1, token 2`, "derivative -0.5", "&lt;script&gt;⏎\n", "run 2 failed by tool after 2 retries: broken",
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page lacks %q:\n%s", want, html)
		}
	}
	if strings.Contains(string(html), "<script") || strings.ContainsAny(string(html), "\x1b\u202e") {
		t.Errorf("the page has what the model wrote:\n%s", html)
	}
	for _, c := range []struct {
		d, most float64
		want    string
	}{{-1, 1, "up3"}, {1, 1, "down3"}, {.1, 1, "down1"}, {-.5, 1, "up2"}, {math.NaN(), 1, "up3"}, {math.Inf(1), math.Inf(1), "down3"}} {
		if got := shade(c.d, c.most); got != c.want {
			t.Errorf("%v of %v is %s, want %s", c.d, c.most, got, c.want)
		}
	}
	for n, want := range map[int][]int64{2: {1, 2}, 5: {1, 2, 3, 4, 5}, 9: {1, 3, 5, 7, 9}} {
		steps := make([]int64, n)
		for i := range steps {
			steps[i] = int64(i + 1)
		}
		if got := spread(steps, 5); !slices.Equal(got, want) {
			t.Errorf("of %d steps %v", n, got)
		}
	}
}
