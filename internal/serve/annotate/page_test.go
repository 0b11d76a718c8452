package annotate

import (
	"os/exec"
	"testing"
)

// Keys on the page become decisions in the book. The page runs in Node with a fake browser.
func TestKeysOnThePageDecide(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node to run the page's script")
	}
	b, s := site(t, "secret", 4)
	if out, err := exec.CommandContext(t.Context(), node, "testdata/page.mjs", s.URL+"/", "secret").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p, r, q := b.decided[0], b.decided[2], b.decided[1]
	left := b.Left(b.pairs[0].ID, "ann")
	if len(p) != 1 || p[0].Verdict != [2]Verdict{First, Second}[left] || p[0].Ratings[left] != 4 ||
		p[0].Ratings[1-left] != 2 || *p[0].Edits[left] != "mine" || p[0].Edits[1-left] != nil {
		t.Errorf("the first pair: %+v", p)
	}
	if len(q) != 1 || q[0].Verdict != Tie || len(r) != 1 || r[0].Verdict != Skip {
		t.Errorf("the second and the third: %+v %+v", q, r)
	}
	left = b.Left(b.pairs[3].ID, "ann")
	if d := b.decided[3]; len(d) != 1 || d[0].Verdict != [2]Verdict{Second, First}[left] || *d[0].Edits[1-left] != "also mine" {
		t.Errorf("the fourth: %+v", d)
	}
}
