package annotate

import (
	"math"
	"strings"
	"testing"
)

// judged parses decisions such as "a1 b2 c=": an annotator and a verdict; - is a skip.
func judged(pairs ...string) [][]Decision {
	says := map[byte]Verdict{'1': First, '2': Second, '=': Tie, '-': Skip}
	var out [][]Decision
	for _, p := range pairs {
		var decided []Decision
		for _, word := range strings.Fields(p) {
			decided = append(decided, Decision{Annotator: word[:1], Verdict: says[word[1]]})
		}
		out = append(out, decided)
	}
	return out
}

func TestAgreementIsCohensOrFleissKappa(t *testing.T) {
	none := math.NaN()
	for _, c := range []struct {
		name   string
		pairs  []string
		n      int
		share  float64
		kappa  float64
		method string
	}{
		{"nobody", nil, 0, 0, none, ""},
		{"one annotator", []string{"a1", "a2", "a1"}, 0, 0, none, ""},
		{"a skip is no judgement", []string{"a1 b-", "a2"}, 0, 0, none, ""},
		{"two who always agree", []string{"a1 b1", "a2 b2"}, 2, 1, 1, "Cohen"},
		{"two who never agree", []string{"a1 b2", "a2 b1"}, 2, 0, -1, "Cohen"},
		{"two who know one word", []string{"a1 b1", "a1 b1"}, 2, 1, none, "Cohen"},
		// Of five pairs a calls .6 first and b .4. By chance they agree on .6·.4 + .4·.6 = .48.
		{"two by hand", []string{"a1 b1", "a1 b1", "a1 b2", "a2 b2", "b2 a2 c-", "c1"}, 5, 0.8, (0.8 - 0.48) / 0.52, "Cohen"},
		// Shares of agreeing couples: 1/3, 1, 1/3. Of 9 judgements 4 are 1, 4 are 2 and 1 is a tie.
		{"three by hand", []string{"a1 b1 c2", "a2 b2 c2", "a1 b1 c="}, 3, 5.0 / 9, (5.0/9 - 33.0/81) / (1 - 33.0/81), "Fleiss"},
		{"pairs of several couples", []string{"a1 b1", "b2 c2", "a1 c2"}, 3, 2.0 / 3, (2.0/3 - 0.5) / 0.5, "Fleiss"},
	} {
		got := agreement(judged(c.pairs...))
		kappa := none
		if got.Kappa != nil {
			kappa = *got.Kappa
		}
		same := math.Abs(kappa-c.kappa) < 1e-12 || math.IsNaN(kappa) && math.IsNaN(c.kappa)
		if got.Pairs != c.n || math.Abs(got.Share-c.share) > 1e-12 || !same || got.Name != c.method {
			t.Errorf("%s: %+v with kappa %v, want %d pairs, share %v, kappa %v of %s", c.name, got, kappa, c.n, c.share, c.kappa, c.method)
		}
	}
}
