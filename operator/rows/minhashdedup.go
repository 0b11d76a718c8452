package rows

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"math/rand/v2"
	"regexp"
	"strings"
	"unicode"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("document_minhash_deduplicator",
		"Keeps the first of several rows with nearly equal texts. Two texts count as equal if a band of "+
			"their MinHash values (Broder 1997) is equal. The probability is 1 − (1 − J^r)^b for the Jaccard "+
			"similarity J of their shingles and b bands of r values each. It remembers about 20 bytes per band "+
			"and row. Unlike Data-Juicer: it compares a row only with rows before it, because rows stream "+
			"through; a later row that resembles two kept rows does not drop the second of them. A text shorter "+
			"than a shingle is one shingle, so that it can be compared. There is no sentencepiece tokenization.",
		func() trinity.TaskOperator {
			return &minHashDeduplicator{TextKey: TextKey{"text"}, Tokenization: "space", Window: 5, Lowercase: true,
				Permutations: 256, Threshold: 0.7}
		})
}

// minHashDeduplicator drops texts that resemble an earlier one.
type minHashDeduplicator struct {
	TextKey       `yaml:",inline"`
	Tokenization  string  `yaml:"tokenization" enum:"space|punctuation|character" doc:"unit of a shingle: words, texts between it, letters"`
	Window        int     `yaml:"window_size" range:"[1,)" doc:"length of a shingle in units"`
	Lowercase     bool    `yaml:"lowercase" doc:"ignore letter case"`
	IgnorePattern string  `yaml:"ignore_pattern" doc:"regular expression; its matches are removed from the text"`
	Permutations  int     `yaml:"num_permutations" range:"[1,4096]" doc:"number of MinHash values of a text"`
	Threshold     float64 `yaml:"jaccard_threshold" range:"[0,1]" doc:"similarity from which texts count as equal; decides bands and rows"`
	Bands         *int    `yaml:"num_bands" range:"[1,)" need:"num_rows_per_band" doc:"number of bands; default: the best"`
	Rows          *int    `yaml:"num_rows_per_band" range:"[1,)" need:"num_bands" doc:"values in a band; default: the best"`

	ignore *regexp.Regexp
	hashes []permutation
	bands  []map[uint64]bool // for each band, the hashes of its values so far
}

// Validate checks ranges and names.
func (d *minHashDeduplicator) Validate() error {
	if d.Bands != nil && *d.Bands**d.Rows > d.Permutations {
		return fmt.Errorf("num_bands %d × num_rows_per_band %d: want a product of at most num_permutations = %d",
			*d.Bands, *d.Rows, d.Permutations)
	}
	_, err := regexp.Compile(d.IgnorePattern)
	return err
}

// Process implements trinity.TaskOperator.
func (d *minHashDeduplicator) Process(ctx context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	if d.bands == nil {
		d.begin()
	}
	return keep(rows, func(r *trinity.TaskRow) (bool, error) {
		s, err := d.text(r)
		if err != nil {
			return false, err
		}
		return !d.again(d.signature(s)), ctx.Err()
	})
}

func (d *minHashDeduplicator) begin() {
	d.ignore = regexp.MustCompile(d.IgnorePattern)
	if d.Bands == nil {
		b, r := bandsFor(d.Threshold, d.Permutations)
		d.Bands, d.Rows = &b, &r
	}
	random := rand.New(rand.NewPCG(42, 0))
	for range *d.Bands * *d.Rows {
		d.hashes = append(d.hashes, permutation{1 + random.Uint64N(mersenne-1), random.Uint64N(mersenne)})
	}
	for range *d.Bands {
		d.bands = append(d.bands, map[uint64]bool{})
	}
}

// signature returns the smallest value of each permutation over the shingles of a text.
func (d *minHashDeduplicator) signature(text string) []uint64 {
	least := make([]uint64, len(d.hashes))
	for i := range least {
		least[i] = math.MaxUint64
	}
	for _, s := range d.shingles(text) {
		h := hash([]byte(s)) % mersenne
		for i, p := range d.hashes {
			least[i] = min(least[i], p.of(h))
		}
	}
	return least
}

func (d *minHashDeduplicator) shingles(text string) []string {
	if d.Lowercase {
		text = strings.ToLower(text)
	}
	if d.IgnorePattern != "" {
		text = d.ignore.ReplaceAllString(text, "")
	}
	switch d.Tokenization {
	case "character":
		return shingles(strings.Split(text, ""), d.Window)
	case "punctuation":
		return shingles(strings.FieldsFunc(text, unicode.IsPunct), d.Window)
	}
	return shingles(strings.Fields(text), d.Window)
}

// again reports whether a band of the signature occurred before, and stores all its bands.
func (d *minHashDeduplicator) again(signature []uint64) bool {
	known := false
	var values []byte
	for b, seen := range d.bands {
		values = values[:0]
		for _, v := range signature[b**d.Rows : (b+1)**d.Rows] {
			values = binary.LittleEndian.AppendUint64(values, v)
		}
		key := hash(values)
		known = known || seen[key]
		seen[key] = true
	}
	return known
}

func hash(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

const mersenne = 1<<61 - 1 // a prime

// permutation is a permutation of 0 … mersenne-1: x → a·x + b.
type permutation struct{ a, b uint64 }

func (p permutation) of(x uint64) uint64 {
	high, low := bits.Mul64(p.a, x)
	low, carry := bits.Add64(low, p.b, 0)
	_, rest := bits.Div64(high+carry, low, mersenne) // high < mersenne, since a and x are
	return rest
}

// bandsFor returns the number b of bands and the number r of values in each, with b·r ≤ n, that
// minimize ∫₀ᵗ p ds + ∫ₜ¹ (1−p) ds. p = 1 − (1 − sʳ)ᵇ is the probability that texts of similarity s
// count as equal.
func bandsFor(threshold float64, n int) (b, r int) {
	const cuts = 100 // midpoints of each integral
	least := math.Inf(1)
	for rows := 1; rows <= n; rows++ {
		var below, above [cuts]float64 // 1 − sʳ at the midpoints
		for i := range cuts {
			at := (float64(i) + 0.5) / cuts
			below[i] = 1 - math.Pow(at*threshold, float64(rows))
			above[i] = 1 - math.Pow(threshold+at*(1-threshold), float64(rows))
		}
		for bands := 1; bands*rows <= n; bands++ {
			wrong := 0.0
			for i := range cuts {
				wrong += threshold * (1 - math.Pow(below[i], float64(bands)))
				wrong += (1 - threshold) * math.Pow(above[i], float64(bands))
			}
			if wrong < least {
				least, b, r = wrong, bands, rows
			}
		}
	}
	return b, r
}
