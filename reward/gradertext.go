package reward

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// textSimilarity compares a text with a reference, from 0 to 1.
type textSimilarity struct {
	input, reference string
	measure          func(text, reference string) float64
}

// similarities are the measures by their names in OpenAI's API.
var similarities = map[string]func(text, reference string) float64{
	"fuzzy_match": func(a, b string) float64 {
		return overlapF(len([]rune(a)), len([]rune(b)), commonSubsequence([]rune(a), []rune(b)))
	},
	"bleu": onWords(bleu), "gleu": onWords(gleu), "meteor": onWords(meteor),
	"rouge_l": onWords(func(a, b []string) float64 {
		if len(a) == 0 {
			return 0
		}
		return overlapF(len(a), len(b), commonSubsequence(a, b))
	}),
}

func init() {
	for n := 1; n <= 5; n++ {
		similarities["rouge_"+strconv.Itoa(n)] = onWords(func(a, b []string) float64 {
			x, y := grams(a, n), grams(b, n)
			if total(x) == 0 || total(y) == 0 {
				return 0
			}
			return overlapF(total(x), total(y), shared(x, y))
		})
	}
}

func newTextSimilarity(s *graderSpec) (*textSimilarity, error) {
	measure := similarities[s.Metric]
	if s.Metric == "cosine" {
		return nil, fmt.Errorf("evaluation_metric: cosine compares embeddings, which this program does not compute: use rouge_l or fuzzy_match")
	}
	if measure == nil {
		return nil, fmt.Errorf("evaluation_metric: want one of %v, got %q", slices.Sorted(maps.Keys(similarities)), s.Metric)
	}
	input, err := s.text()
	return &textSimilarity{input, s.Reference, measure}, err
}

// longestCompared bounds the characters of a text, because the common subsequence takes their product.
const longestCompared = 10_000

func (t *textSimilarity) grade(_ context.Context, s *sample) (float64, error) {
	input, reference, err := s.both(t.input, t.reference)
	if err != nil {
		return 0, err
	}
	if most := max(len(input), len(reference)); most > longestCompared {
		return 0, failed("other_error", "a text of %d bytes is too long to compare, at most %d", most, longestCompared)
	}
	return t.measure(input, reference), nil
}

// onWords applies a measure to words: runs of letters and digits in lower case.
func onWords(measure func(text, reference []string) float64) func(text, reference string) float64 {
	words := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	}
	return func(text, reference string) float64 { return measure(words(text), words(reference)) }
}

// overlapF returns the harmonic mean of the shares that two texts of lengths a and b have in common.
// Two empty texts are equal.
func overlapF(a, b, common int) float64 {
	if a+b == 0 {
		return 1
	}
	return 2 * float64(common) / float64(a+b)
}

// commonSubsequence returns the length of the longest common subsequence.
func commonSubsequence[T comparable](a, b []T) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for j, y := range b {
			above := row[j+1]
			if x == y {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

// grams counts the sequences of n words.
func grams(words []string, n int) map[string]int {
	count := map[string]int{}
	for i := 0; i+n <= len(words); i++ {
		count[strings.Join(words[i:i+n], " ")]++
	}
	return count
}

func total(count map[string]int) (sum int) {
	for _, n := range count {
		sum += n
	}
	return sum
}

// shared returns how many sequences both have.
func shared(a, b map[string]int) (sum int) {
	for g, n := range a {
		sum += min(n, b[g])
	}
	return sum
}

// bleu returns BLEU (Papineni et al. 2002) over one to four words, where a precision without a match
// counts as a tenth of one (method 1 of Chen & Cherry 2014).
func bleu(text, reference []string) float64 {
	if len(text) == 0 {
		return 0
	}
	sum := 0.0
	for n := 1; n <= 4; n++ {
		x := grams(text, n)
		matches := float64(shared(x, grams(reference, n)))
		if matches == 0 && n == 1 {
			return 0
		}
		if matches == 0 {
			matches = 0.1
		}
		sum += math.Log(matches / float64(max(1, total(x))))
	}
	short := 0.0
	if len(text) < len(reference) {
		short = 1 - float64(len(reference))/float64(len(text))
	}
	return math.Exp(short + sum/4)
}

// gleu returns Google-BLEU (Wu et al. 2016): the smaller one of precision and recall over one to four
// words.
func gleu(text, reference []string) float64 {
	common := 0
	for n := 1; n <= 4; n++ {
		common += shared(grams(text, n), grams(reference, n))
	}
	longer := max(allGrams(len(text)), allGrams(len(reference)))
	if longer == 0 {
		return 0
	}
	return float64(common) / float64(longer)
}

// allGrams returns how many sequences of one to four words a text has.
func allGrams(words int) (sum int) {
	for n := 1; n <= 4; n++ {
		sum += max(0, words-n+1)
	}
	return sum
}

// meteor returns METEOR (Banerjee & Lavie 2005) with exact matches alone. Each word matches the last
// equal word of the reference that is still free.
func meteor(text, reference []string) float64 {
	free := map[string][]int{}
	for i, w := range reference {
		free[w] = append(free[w], i)
	}
	var at [][2]int // matches: places in the text and in the reference
	for i := len(text) - 1; i >= 0; i-- {
		if places := free[text[i]]; len(places) > 0 {
			at = append(at, [2]int{i, places[len(places)-1]})
			free[text[i]] = places[:len(places)-1]
		}
	}
	if len(at) == 0 {
		return 0
	}
	slices.Reverse(at)
	chunks := 1
	for i := 1; i < len(at); i++ {
		if at[i][0] != at[i-1][0]+1 || at[i][1] != at[i-1][1]+1 {
			chunks++
		}
	}
	matches := float64(len(at))
	precision, recall := matches/float64(len(text)), matches/float64(len(reference))
	mean := precision * recall / (0.9*precision + 0.1*recall)
	return mean * (1 - 0.5*math.Pow(float64(chunks)/matches, 3))
}
