package environment

import (
	"fmt"
	"math"
	"slices"
)

// recipeArgs say how recipes are drawn. Elements of tier 0 are given; each of a higher tier has some
// recipes, of one element of the tier below and one that is also of it or, with cross_tier_prob, of a
// lower one. Decoys have a recipe, and nothing wanted needs them.
type recipeArgs struct {
	MinTiers     int     `yaml:"min_num_tiers" doc:"tiers at least"`
	MaxTiers     int     `yaml:"max_num_tiers" doc:"tiers at most"`
	MinBase      int     `yaml:"min_base_elements" doc:"elements of tier 0 at least"`
	MaxBase      int     `yaml:"max_base_elements" doc:"elements of tier 0 at most"`
	MinShrink    float64 `yaml:"tier_shrink_min" doc:"size of a tier, as a share of the one below, at least"`
	MaxShrink    float64 `yaml:"tier_shrink_max" doc:"the same at most"`
	MinRecipes   int     `yaml:"min_recipes_per_element" doc:"recipes of an element at least"`
	MaxRecipes   int     `yaml:"max_recipes_per_element" doc:"recipes of an element at most"`
	MaxGap       int     `yaml:"max_tier_gap" range:"[1,)" doc:"tiers from an element down to what makes it, at most"`
	MinCross     float64 `yaml:"min_cross_tier_prob" doc:"share of recipes with an element of a lower tier than the one below, at least"`
	MaxCross     float64 `yaml:"max_cross_tier_prob" doc:"the same at most"`
	MinDecoys    float64 `yaml:"min_noise_node_ratio" doc:"decoys, as a share of a tier, at least"`
	MaxDecoys    float64 `yaml:"max_noise_node_ratio" doc:"the same at most"`
	DecoysRounds int     `yaml:"noise_chain_depth" range:"[0,20]" doc:"times that decoys are added"`
}

func defaultRecipes() recipeArgs {
	return recipeArgs{MinTiers: 3, MaxTiers: 4, MinBase: 10, MaxBase: 15, MinShrink: 0.4, MaxShrink: 0.6, MinRecipes: 2, MaxRecipes: 3,
		MaxGap: 2, MinCross: 0.2, MaxCross: 0.35, MinDecoys: 0.15, MaxDecoys: 0.25, DecoysRounds: 3}
}

func (r *recipeArgs) validate() error {
	for _, b := range []struct {
		names          string
		low, high      float64
		lowest, limits float64
	}{
		{"min_num_tiers and max_num_tiers", float64(r.MinTiers), float64(r.MaxTiers), 2, 10},
		{"min_base_elements and max_base_elements", float64(r.MinBase), float64(r.MaxBase), 1, 500},
		{"tier_shrink_min and tier_shrink_max", r.MinShrink, r.MaxShrink, 0, 1},
		{"min_recipes_per_element and max_recipes_per_element", float64(r.MinRecipes), float64(r.MaxRecipes), 1, 20},
		{"min_cross_tier_prob and max_cross_tier_prob", r.MinCross, r.MaxCross, 0, 1},
		{"min_noise_node_ratio and max_noise_node_ratio", r.MinDecoys, r.MaxDecoys, 0, 10},
	} {
		if !(b.low >= b.lowest && b.low <= b.high && b.high <= b.limits) {
			return fmt.Errorf("%s: want %g ≤ min ≤ max ≤ %g, got %g and %g", b.names, b.lowest, b.limits, b.low, b.high)
		}
	}
	return nil
}

// recipe is a pair of elements, in alphabetic order, and what it makes.
type recipe struct {
	of    [2]string
	makes string
}

// book has all elements and recipes.
type book struct {
	tiers   [][]string // elements with their decoys
	decoys  map[string]bool
	recipes []recipe
	byPair  map[[2]string]string
	names   map[string]bool
}

// makes returns what a pair makes, or "".
func (b *book) makes(one, two string) string { return b.byPair[pair(one, two)] }

func pair(one, two string) [2]string { return [2]string{min(one, two), max(one, two)} }

// write draws a book. Every element that is no decoy can be made.
func (r *recipeArgs) write(random *numpyRandom) *book {
	b := &book{decoys: map[string]bool{}, byPair: map[[2]string]string{}, names: map[string]bool{}}
	tiers := random.between(r.MinTiers, r.MaxTiers)
	size := random.between(r.MinBase, r.MaxBase)
	shrink := random.uniform(r.MinShrink, r.MaxShrink)
	cross := random.uniform(r.MinCross, r.MaxCross)
	decoys := random.uniform(r.MinDecoys, r.MaxDecoys)
	sizes := make([]int, tiers)
	for t := range tiers {
		sizes[t] = size
		var elements []string
		for range size {
			elements = append(elements, b.name(random))
		}
		b.tiers = append(b.tiers, elements)
		size = max(1, int(math.RoundToEven(float64(size)*shrink)))
	}
	for t := 1; t < tiers; t++ {
		b.tiers[t] = slices.DeleteFunc(b.tiers[t], func(e string) bool {
			found := false
			for range random.between(r.MinRecipes, r.MaxRecipes) {
				found = b.add(random, e, t, r.MaxGap, cross) || found
			}
			return !found // all pairs of the tier below make something else
		})
		if len(b.tiers[t]) == 0 {
			b.tiers = b.tiers[:t]
			break
		}
	}
	for round := range r.DecoysRounds {
		added := make([][]string, len(b.tiers))
		for t := 1; t < len(b.tiers); t++ {
			n := math.RoundToEven(float64(sizes[t]) * decoys)
			if round > 0 {
				n = math.RoundToEven(n / 2)
			}
			for range int(n) {
				if e := b.name(random); b.add(random, e, t, r.MaxGap, cross) {
					added[t], b.decoys[e] = append(added[t], e), true
				}
			}
		}
		for t, elements := range added {
			b.tiers[t] = append(b.tiers[t], elements...)
		}
	}
	return b
}

// name draws a name that no element has.
func (b *book) name(random *numpyRandom) string {
	for {
		letters := make([]byte, random.between(3, 5))
		for i := range letters {
			letters[i] = byte('a' + random.below(26))
		}
		if e := string(letters); !b.names[e] {
			b.names[e] = true
			return e
		}
	}
}

// add draws a recipe of an element of a tier. It returns false if it finds no free pair.
func (b *book) add(random *numpyRandom, e string, tier, gap int, cross float64) bool {
	draw := func(t int) string { return b.tiers[t][random.below(uint32(len(b.tiers[t])))] }
	for range 50 {
		one, from := draw(tier-1), tier-1
		if random.float64() < cross && tier >= 2 && max(0, tier-gap) <= tier-2 {
			from = random.between(max(0, tier-gap), tier-2)
		}
		of := pair(one, draw(from))
		if b.byPair[of] == "" {
			b.byPair[of] = e
			b.recipes = append(b.recipes, recipe{of, e})
			return true
		}
	}
	return false
}

// targets draws different elements to make, those of high tiers more often: n, or all that there are.
func (b *book) targets(random *numpyRandom, n int) (drawn []string) {
	left := make([][]string, len(b.tiers))
	for t := 1; t < len(b.tiers); t++ {
		left[t] = slices.DeleteFunc(slices.Clone(b.tiers[t]), func(e string) bool { return b.decoys[e] })
	}
	for range n {
		var lots []int // a tier t has t + 1
		for t := range left {
			if len(left[t]) > 0 {
				lots = append(lots, slices.Repeat([]int{t}, t+1)...)
			}
		}
		if len(lots) == 0 {
			break
		}
		t := lots[random.below(uint32(len(lots)))]
		i := random.below(uint32(len(left[t])))
		drawn = append(drawn, left[t][i])
		left[t] = slices.Delete(left[t], i, i+1)
	}
	for i := len(drawn) - 1; i > 0; i-- {
		j := random.below(uint32(i + 1))
		drawn[i], drawn[j] = drawn[j], drawn[i]
	}
	return drawn
}

// needs returns how many of each element of tier 0 the first recipes of an element and of all that it
// is made of use.
func (b *book) needs(e string) map[string]int {
	all := map[string]int{}
	var use func(e string)
	use = func(e string) {
		i := slices.IndexFunc(b.recipes, func(r recipe) bool { return r.makes == e })
		if i < 0 {
			all[e]++
			return
		}
		use(b.recipes[i].of[0])
		use(b.recipes[i].of[1])
	}
	use(e)
	return all
}
