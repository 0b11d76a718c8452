package taskset

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/trinity-go/trinity"
)

// Weights are how much each dimension counts in the priority of a row.
type Weights struct {
	Difficulty     float64 `json:"difficulty"`
	Diversity      float64 `json:"diversity"`
	UsageFrequency float64 `json:"usage_frequency"`
	Quality        float64 `json:"quality"`
}

// DefaultWeights prefer what is easy, new, little used and good.
var DefaultWeights = Weights{Difficulty: -0.7, Diversity: 0.8, UsageFrequency: -0.5, Quality: 1}

// scoreOf says what a statistic, of 0 to 1, tells of a dimension.
type scoreOf struct {
	stat  string
	lower bool // is better
}

// dimensions are what Trinity-RFT makes of the statistics, and diversity.
var dimensions = []struct {
	field string // of the output
	of    []scoreOf
}{
	{"difficulty_score", []scoreOf{{"lang_score", true}, {"llm_difficulty_score", false}, {perplexity, false}}},
	{"diversity_score", []scoreOf{{"ngram_diversity", false}}},
	{"quality_score", []scoreOf{
		{"alnum_ratio", false}, {"char_rep_ratio", true}, {"flagged_words_ratio", true}, {"llm_quality_score", false}, {"special_char_ratio", true}, {"stopwords_ratio", false},
		{"word_rep_ratio", true},
	}},
}

// perplexity is the statistic that has no bound: 0 and 1 are the least and the greatest of all rows.
const perplexity = "perplexity"

const priorityField = "priority"

// written are the fields that the pipeline writes.
var written = map[string]bool{statsField: true, "difficulty_score": true, "diversity_score": true, "quality_score": true, priorityField: true}

// scores are the priorities of rows: the weights times the dimensions, each the mean of what statistics say of it, 0 where none does, and times the number of
// uses, the statistic consumed_cnt. A row that brings a priority keeps it.
type scores struct {
	weights Weights
	rows    []scored
	known   [3]bool // dimensions of which some row has a statistic
	uses    bool    // some row has its number of uses
	low     float64 // perplexity
	high    float64
	ranged  bool // low and high are of some row
}

type scored struct {
	sum        [3]float64 // over the statistics of each dimension, perplexity apart
	n          [3]int8
	perplexity float64 // NaN if it is not known
	used       float64
	given      float64 // NaN if it brings none
}

// add takes the next row.
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

// widen lets the range of perplexities hold v.
func (s *scores) widen(v float64) {
	if !s.ranged {
		s.low, s.high, s.ranged = v, v, true
	}
	s.low, s.high = min(s.low, v), max(s.high, v)
}

// of is the score of a row in each dimension.
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

// order is the rows by falling priority, those of equal priority as they came, no more than topK unless that is negative.
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

// idle names the weights that were set and count nothing, since no row has what they weigh.
func (s *scores) idle() (names []string) {
	if s.weights == DefaultWeights {
		return nil
	}
	for _, w := range []struct {
		name   string
		weight float64
		known  bool
	}{
		{"difficulty", s.weights.Difficulty, s.known[0]}, {"diversity", s.weights.Diversity, s.known[1]}, {"quality", s.weights.Quality, s.known[2]},
		{"usage_frequency", s.weights.UsageFrequency, s.uses},
	} {
		if w.weight != 0 && !w.known {
			names = append(names, w.name)
		}
	}
	return names
}

// append adds the scores of row i to its object in JSON.
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

// number is a finite number of a row.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return 0, false
}
