package taskset

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/trinity-go/trinity"
)

// Weights are the factors of each dimension in the priority of a row.
type Weights struct {
	Difficulty     float64 `json:"difficulty"`
	Diversity      float64 `json:"diversity"`
	UsageFrequency float64 `json:"usage_frequency"`
	Quality        float64 `json:"quality"`
}

// DefaultWeights prefer rows that are easy, diverse, little used and good.
var DefaultWeights = Weights{Difficulty: -0.7, Diversity: 0.8, UsageFrequency: -0.5, Quality: 1}

// scoreOf is the part of a statistic, 0 to 1, in a dimension.
type scoreOf struct {
	stat  string
	lower bool // a lower statistic is better
}

// dimensions are Trinity-RFT's dimensions and their statistics, and diversity.
var dimensions = []struct {
	field string // of the output
	of    []scoreOf
}{
	{"difficulty_score", []scoreOf{{"lang_score", true}, {"llm_difficulty_score", false}, {perplexity, false}}},
	{"diversity_score", []scoreOf{{"ngram_diversity", false}}},
	{"quality_score", []scoreOf{
		{"alnum_ratio", false}, {"char_rep_ratio", true}, {"flagged_words_ratio", true}, {"llm_quality_score", false},
		{"special_char_ratio", true}, {"stopwords_ratio", false},
		{"word_rep_ratio", true},
	}},
}

// perplexity is the only statistic without bounds: it is scaled so that the least value of all rows
// is 0 and the greatest is 1.
const perplexity = "perplexity"

const priorityField = "priority"

// written lists the fields that the pipeline adds.
var written = map[string]bool{statsField: true, "difficulty_score": true, "diversity_score": true, "quality_score": true,
	priorityField: true}

// scores computes the priorities of rows: the sum of each weight times its dimension, and of a
// weight times the number of uses (the statistic consumed_cnt). A dimension is the mean of its
// statistics, 0 without any. A row that already has a priority keeps it.
type scores struct {
	weights Weights
	rows    []scored
	known   [3]bool // dimensions for which some row has a statistic
	uses    bool    // some row has its number of uses
	low     float64 // perplexity
	high    float64
	ranged  bool // low and high are set
}

type scored struct {
	sum        [3]float64 // over the statistics of each dimension, without perplexity
	n          [3]int8
	perplexity float64 // NaN if unknown
	used       float64
	given      float64 // NaN if the row has no priority
}

// add adds the next row.
func (s *scores) add(row *trinity.TaskRow) {
	r := scored{perplexity: math.NaN(), given: math.NaN()}
	for d, dim := range dimensions {
		for _, of := range dim.of {
			v, ok := number(row.Stats[of.stat])
			switch {
			case !ok:
				continue
			case of.stat == perplexity:
				r.perplexity = v
				s.widen(v)
			case of.lower:
				r.sum[d] += 1 - v
			default:
				r.sum[d] += v
			}
			r.n[d]++
			s.known[d] = true
		}
	}
	used, ok := number(row.Stats["consumed_cnt"])
	r.used, s.uses = used, s.uses || ok
	if v, ok := number(row.Row[priorityField]); ok {
		r.given = v
	}
	s.rows = append(s.rows, r)
}

// widen extends the range of perplexities to v.
func (s *scores) widen(v float64) {
	if !s.ranged {
		s.low, s.high, s.ranged = v, v, true
	}
	s.low, s.high = min(s.low, v), max(s.high, v)
}

// of returns the score of a row in each dimension.
func (s *scores) of(i int) (dims [3]float64) {
	r := s.rows[i]
	for d := range dims {
		sum := r.sum[d]
		if d == 0 && !math.IsNaN(r.perplexity) && s.high > s.low {
			sum += (r.perplexity - s.low) / (s.high - s.low)
		}
		if r.n[d] > 0 {
			dims[d] = sum / float64(r.n[d])
		}
	}
	return dims
}

func (s *scores) priority(i int) float64 {
	r := s.rows[i]
	if !math.IsNaN(r.given) {
		return r.given
	}
	d := s.of(i)
	return s.weights.Difficulty*d[0] + s.weights.Diversity*d[1] + s.weights.Quality*d[2] + s.weights.UsageFrequency*r.used
}

// order returns the rows by falling priority, at most topK of them unless topK is negative. Rows of
// equal priority stay in order.
func (s *scores) order(topK int) []int {
	order := make([]int, len(s.rows))
	priority := make([]float64, len(s.rows))
	for i := range order {
		order[i], priority[i] = i, s.priority(i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(priority[b], priority[a]) })
	if topK >= 0 {
		order = order[:min(topK, len(order))]
	}
	return order
}

// idle returns the names of configured weights without effect, because no row has their scores.
func (s *scores) idle() (names []string) {
	if s.weights == DefaultWeights {
		return nil
	}
	for _, w := range []struct {
		name   string
		weight float64
		known  bool
	}{
		{"difficulty", s.weights.Difficulty, s.known[0]}, {"diversity", s.weights.Diversity, s.known[1]},
		{"quality", s.weights.Quality, s.known[2]},
		{"usage_frequency", s.weights.UsageFrequency, s.uses},
	} {
		if w.weight != 0 && !w.known {
			names = append(names, w.name)
		}
	}
	return names
}

// append appends the scores of row i to its JSON object.
func (s *scores) append(row []byte, i int) []byte {
	row = row[:len(row)-1]
	put := func(field string, v float64) {
		row = append(row, `,"`+field+`":`...)
		row = strconv.AppendFloat(row, v, 'g', -1, 64)
	}
	for d, v := range s.of(i) {
		if s.known[d] {
			put(dimensions[d].field, v)
		}
	}
	put(priorityField, s.priority(i))
	return append(row, '}')
}

// number returns the finite number in v, and reports whether there is one.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case float64:
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return 0, false
}
