package sampler

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// naive finds the longest end of a text that came before in texts of its group, and where it can go on.
func naive(all [][]int32, end []int32) (longest int, next map[int32]bool) {
	next = map[int32]bool{}
	for _, text := range all {
		for i := 0; i+1 < len(text); i++ {
			n := 0
			for n < min(compared, len(end), i+1) && text[i-n] == end[len(end)-1-n] {
				n++
			}
			if n > longest {
				longest = n
				clear(next)
			}
			if n == longest {
				next[text[i+1]] = true
			}
		}
	}
	return longest, next
}

// FuzzTexts compares what find finds with a search of all texts, while several grow at once.
func FuzzTexts(f *testing.F) {
	for seed := range uint64(12) {
		f.Add(seed, uint8(seed%5), uint8(3+seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, parts, letters uint8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		x := newTexts(2 + int(parts))
		whole := parts >= 4 // a ring that loses nothing, of texts so short that find looks at all places
		if whole {
			x = newTexts(64)
		}
		alphabet := 2 + int32(letters%40)
		random := func(n int) []int32 {
			v := make([]int32, n)
			for i := range v {
				v[i] = rng.Int32N(alphabet)
			}
			return v
		}
		groups := []uint64{1, 3}
		texts, all := []text{}, map[uint64][][]int32{}
		for _, group := range groups {
			prompt := random(1 + rng.IntN(12))
			all[group] = append(all[group], prompt)
			for range 3 {
				texts = append(texts, x.begin(group, prompt))
				all[group] = append(all[group], slices.Clone(prompt))
			}
		}
		for range 60 {
			i := rng.IntN(len(texts))
			one, group := &texts[i], texts[i].group
			mine := &all[group][1+i%3]
			token := rng.Int32N(alphabet)
			x.add(one, token, true)
			*mine = append(*mine, token)
			got := x.find(one, nil)
			end := (*mine)[max(0, len(*mine)-compared):]
			for _, g := range got {
				at, ok := x.next(g.place)
				known := slices.ContainsFunc(all[group], func(text []int32) bool {
					return contains(text, append(slices.Clone(end[len(end)-g.length:]), x.tokens[at]))
				})
				if !ok || !known {
					t.Fatalf("no text has the %d last of %v and then %d", g.length, end, x.tokens[at])
				}
			}
			longest, next := naive(all[group], end)
			switch {
			case !whole || len(all[group][0])+len(*mine) > 4*visited:
			case longest < 2 && len(got) > 0, longest >= 2 && len(got) == 0:
				t.Fatalf("the longest end of %v has %d tokens; found %v", end, longest, got)
			case longest >= 2 && alphabet > 12 && got[0].length != longest: // with few letters there are more places than find looks at
				t.Fatalf("found an end of %d tokens of %v, the longest has %d", got[0].length, end, longest)
			case longest >= 2 && alphabet > 12:
				for _, g := range got {
					if at, _ := x.next(g.place); !next[x.tokens[at]] {
						t.Fatalf("behind %v came %v, found %d", end, next, x.tokens[at])
					}
				}
			}
		}
	})
}

// contains reports whether a text has a run of tokens.
func contains(text, run []int32) bool {
	for i := 0; i+len(run) <= len(text); i++ {
		if slices.Equal(text[i:i+len(run)], run) {
			return true
		}
	}
	return false
}

// TestOldTextsGoFirst fills the ring: of each text the newest are found, and of the first none.
func TestOldTextsGoFirst(t *testing.T) {
	x := newTexts(8)
	reply := func(version int32) []int32 {
		return []int32{100 + version, 200 + version, 300 + version, 400 + version}
	}
	for version := range int32(20) {
		one := x.begin(1, []int32{1})
		for _, token := range reply(version) {
			x.add(&one, token, true)
		}
	}
	for version := range int32(20) {
		one := x.begin(1, []int32{1})
		for _, token := range reply(version)[:2] {
			x.add(&one, token, true)
		}
		got := x.find(&one, nil)
		if found := len(got) > 0; found != (version >= 20) && version < 12 {
			t.Errorf("version %d: found %v", version, found)
		}
	}
}

// TestFrequentContinuationsWin votes: of three replies two go on alike, and of two equal ones the newer
// wins.
func TestFrequentContinuationsWin(t *testing.T) {
	d := newDrafter(Options{Drafts: 4, MaxSequences: 1})
	r := &request{prompt: []int32{1, 2, 3, 4}, adapter: &adapter{}, length: 99}
	tell := func(tokens ...int32) *sequence {
		q := &sequence{request: r, tokens: tokens}
		d.learn(q, len(tokens))
		return q
	}
	proposed := func(q *sequence) (tokens []int32) {
		d.propose(q, 4)
		for _, draft := range q.drafts {
			tokens = append(tokens, draft.token)
		}
		return tokens
	}
	if got := proposed(tell(10, 11)); got != nil {
		t.Errorf("nothing came before: %v", got)
	}
	tell(20, 21, 30, 31)
	tell(20, 21, 40, 41, 42)
	if got := proposed(tell(20, 21)); !slices.Equal(got, []int32{40, 41, 42}) {
		t.Errorf("the newest: %v", got)
	}
	tell(20, 21, 30, 32, 33)
	tell(20, 21, 50)
	if got := proposed(tell(20, 21)); !slices.Equal(got, []int32{30, 32, 33}) {
		t.Errorf("the most frequent, then the newest: %v", got)
	}
}
