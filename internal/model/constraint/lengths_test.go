package constraint

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// Of all short texts of two letters, a form takes those that fit the pattern and the length. It takes the
// beginning of a text only if some text with that beginning fits.
func TestLengthsBesidePatterns(t *testing.T) {
	var all []string
	for now := []string{""}; len(now[0]) <= 7; {
		all = append(all, now...)
		var next []string
		for _, text := range now {
			next = append(next, text+"a", text+"é")
		}
		now = next
	}
	v, live := words(), 0
	for _, pattern := range []string{
		`^(aé|aaé){1,9}$`, `a.{3}é`, `^a*é$|^é{4}$`, `(^|é)a(é|$)`, `^(a{2}|é{3})*$`, `^[aé]{2,5}$`, `^a+é+a+$`, `^é{0,3}a?$`, `aéa|ééé`, `^.a`,
	} {
		re := regexp.MustCompile(pattern)
		for _, lo := range []int{0, 2, 4} {
			for _, hi := range []int{1, 3, 5, 7} {
				begins := map[string]bool{} // of texts that fit
				fits := func(text string) bool {
					n := len([]rune(text))
					return re.MatchString(text) && lo <= n && n <= hi
				}
				for _, text := range all {
					if fits(text) {
						for end := range len(text) + 1 {
							begins[text[:end]] = true
						}
					}
				}
				schema := fmt.Sprintf(`{"type":"string","pattern":%q,"minLength":%d,"maxLength":%d}`, pattern, lo, hi)
				c, err := v.Compile(Form{Schema: json.RawMessage(schema)})
				if (err != nil) != (len(begins) == 0) || err != nil && !strings.Contains(err.Error(), "no text fits") {
					t.Fatalf("%s: %v, and %d texts fit", schema, err, len(begins))
				}
				if err != nil {
					continue
				}
				g := c.(*cursor).g
				for _, text := range all {
					if got := takes(g, `"`+text+`"`); got != fits(text) {
						t.Errorf("%s takes %q: %v", schema, text, got)
					}
					at := g.start
					for _, c := range []byte(`"` + text) {
						at = g.masks.g.step(at, c)
					}
					if g.masks.g.work = maskWork; (at != none) != begins[text] {
						t.Errorf("%s goes on behind %q: %v", schema, text, at != none)
					} else if at != none {
						live++
					}
				}
			}
		}
	}
	if live < 1000 {
		t.Errorf("%d beginnings", live)
	}
}
