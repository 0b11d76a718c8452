package constraint

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/trinity-go/trinity/internal/model/tokenizer"
	"github.com/trinity-go/trinity/model"
)

// smolLM2 returns the vocabulary of SmolLM2, 49,152 tokens.
func smolLM2(t testing.TB) *Vocabulary {
	path := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if path == "" {
		t.Skip("TRINITY_SMOLLM2_GGUF is not set")
	}
	m, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tok, err := tokenizer.FromVocabulary(*m.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	return Of(tok, []int32{tok.EOS()})
}

// typical is a schema as clients send them.
const typical = `{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":60},
"age":{"type":"integer","minimum":0,"maximum":150},
"tags":{"type":"array","items":{"type":"string"},"maxItems":5},"kind":{"enum":["person","company","other"]},"note":{"type":"string"},
"address":{"type":"object","properties":{"street":{"type":"string"},
"zip":{"type":"string","pattern":"^[0-9]{5}$"}},"required":["street","zip"]}},
"required":["name","age","tags","kind","address"],"additionalProperties":false}`

func BenchmarkMask(b *testing.B) {
	v := smolLM2(b)
	for _, cold := range []bool{true, false} {
		name := map[bool]string{true: "first reply", false: "later replies"}[cold]
		b.Run(name, func(b *testing.B) {
			mask := make([]uint64, (v.size+63)/64)
			tokens := 0
			for n := range b.N {
				if cold {
					v.cache = cache{}
				}
				b.StopTimer()
				c, err := v.Compile(Form{Schema: json.RawMessage(typical)})
				if err != nil {
					b.Fatal(err)
				}
				r := rand.New(rand.NewPCG(uint64(n), 3))
				b.StartTimer()
				for range 200 {
					c.Mask(mask)
					b.StopTimer()
					var allowed []int32
					for token := range int32(v.size) {
						if mask[token/64]>>(token%64)&1 == 1 {
							allowed = append(allowed, token)
						}
					}
					token := allowed[r.IntN(len(allowed))]
					b.StartTimer()
					if err := c.Accept(token); err != nil {
						b.Fatal(err)
					}
					if tokens++; slices.Contains(v.stops, token) {
						break
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(tokens), "µs/token")
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	v := smolLM2(b)
	for b.Loop() {
		v.cache = cache{}
		if _, err := v.Compile(Form{Schema: json.RawMessage(typical)}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVocabulary(b *testing.B) {
	v := smolLM2(b)
	for b.Loop() {
		newVocabulary(slices.Clone(v.texts), nil).builder()
	}
}
