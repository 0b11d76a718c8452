package tokenizer

import (
	"strings"
	"testing"
)

// prose is 64 KB of the reference texts.
func prose(b *testing.B) string {
	texts := referenceTexts(b)
	return strings.Repeat(strings.Join(texts[len(texts)-60:], "\n"), 4)[:64<<10]
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"gpt2", "qwen2", "smollm", "o200k", "llama2"} {
		b.Run(name, func(b *testing.B) {
			tok, text := family(b, name), prose(b)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				tok.Encode(text, true)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"qwen2", "llama2"} {
		b.Run(name, func(b *testing.B) {
			tok := family(b, name)
			ids := tok.Encode(prose(b), false)
			b.ReportAllocs()
			for b.Loop() {
				tok.Decode(ids, true)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/token")
		})
	}
}
