package report

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestCSV(t *testing.T) {
	root := filepath.Join(t.TempDir(), "runs")
	record := func(step, role, metrics string) string {
		return `{"step":` + step + `,"role":"` + role + `","time":"2026-01-02T15:04:05.000Z","metrics":{` + metrics + `}}`
	}
	writeStage(t, filepath.Join(root, "b", "monitor"), record("1", "explorer", `"a,b":0.5`), record("2", "trainer", `"loss":"NaN"`), "")
	writeStage(t, filepath.Join(root, "a", "rl", "monitor", "explorer1"), record("1", "explorer", `"x":1`), "")
	writeStage(t, filepath.Join(root, "a", "rl", "monitor", "explorer2"), record("1", "explorer", `"x":3`),
		record("10", "explorer", `"x":1e-7`), "")
	for _, test := range []struct {
		names []string
		want  string
	}{
		{nil, "run,step,\"a,b\",loss,x\na/rl,1,,,2\na/rl,10,,,1e-07\nb,1,0.5,,\nb,2,,NaN,\n"},
		{[]string{"x", "loss"}, "run,step,x,loss\na/rl,1,2,\na/rl,10,1e-07,\nb,2,,NaN\n"},
	} {
		var b strings.Builder
		if err := WriteCSV(&b, test.names, root); err != nil || b.String() != test.want {
			t.Errorf("%q: %v\n%s\nwant\n%s", test.names, err, b.String(), test.want)
		}
	}
	var b strings.Builder
	if err := WriteCSV(&b, []string{"x"}, filepath.Join(root, "a"), filepath.Join(root, "a", "rl")); err != nil {
		t.Fatal(err)
	}
	if want := "run,step,x\na/rl,1,2\na/rl,10,1e-07\nrl,1,2\nrl,10,1e-07\n"; b.String() != want {
		t.Errorf("of two directories\n%s\nwant\n%s", b.String(), want)
	}

	// runs of two directories with the same name, one of them named twice
	first, second := filepath.Join(root, "b"), filepath.Join(root, "other", "b")
	writeStage(t, filepath.Join(second, "monitor"), record("1", "explorer", `"x":7`), "")
	b.Reset()
	if err := WriteCSV(&b, []string{"x", "loss"}, first, second, first); err != nil {
		t.Fatal(err)
	}
	if want := "run,step,x,loss\n" + filepath.ToSlash(first) + ",2,,NaN\n" + filepath.ToSlash(second) + ",1,7,\n"; b.String() != want {
		t.Errorf("of two runs with one name\n%s\nwant\n%s", b.String(), want)
	}
}
