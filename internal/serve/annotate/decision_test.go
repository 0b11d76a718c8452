package annotate

import "testing"

func TestSameEditsComparesTexts(t *testing.T) {
	for _, c := range []struct {
		a, b [2]*string
		want bool
	}{
		{[2]*string{}, [2]*string{}, true}, {[2]*string{ptr("x"), nil}, [2]*string{ptr("x"), nil}, true},
		{[2]*string{nil, ptr("y")}, [2]*string{nil, ptr("y")}, true},
		{[2]*string{ptr("x"), nil}, [2]*string{}, false}, {[2]*string{}, [2]*string{nil, ptr("y")}, false},
		{[2]*string{ptr("x"), nil}, [2]*string{nil, ptr("x")}, false},
		{[2]*string{ptr("x"), nil}, [2]*string{ptr("y"), nil}, false}, {[2]*string{nil, ptr("x")}, [2]*string{nil, ptr("y")}, false},
	} {
		if got := sameEdits(c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %v", c.a, c.b, got)
		}
	}
}
