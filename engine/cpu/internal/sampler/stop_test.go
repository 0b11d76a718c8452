package sampler

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/model"
)

// TestStoppedAtTheTokenThatCompletesTheString feeds texts byte by byte, a token each: characters
// come in pieces.
func TestStoppedAtTheTokenThatCompletesTheString(t *testing.T) {
	decode := func(tokens []int32) string {
		var b []byte
		for _, t := range tokens {
			b = append(b, byte(t))
		}
		return strings.ToValidUTF8(string(b), string(utf8.RuneError))
	}
	for _, c := range []struct {
		text string
		stop []string
		want int // bytes until the stop, 0 if there is none
	}{
		{"hello world", []string{"wor"}, 9},
		{"hello world", []string{"xyz", "lo "}, 6},
		{"hello world", []string{"word"}, 0},
		{"aab", []string{"ab"}, 3},
		{"Größe", []string{"ß"}, 6},
		{"日本語のテキスト", []string{"テキ"}, 18},
		{"日本語", []string{"語\n"}, 0},
		{"\n\nUser:", []string{"\n\n"}, 2},
	} {
		r := &request{params: trinity.SamplingParams{Stop: c.stop}}
		for _, stop := range c.stop {
			r.tail = max(r.tail, len(stop)+utf8.UTFMax)
		}
		var tokens []int32
		got := 0
		for _, b := range []byte(c.text) {
			if tokens = append(tokens, int32(b)); r.stopped(tokens, decode) {
				got = len(tokens)
				break
			}
		}
		if got != c.want {
			t.Errorf("%q until %q: stopped after %d bytes, want %d", c.text, c.stop, got, c.want)
		}
	}
}

// TestStringsBeforeMinTokensDoNotStopLater: a stop string counts at the token that completes it.
func TestStringsBeforeMinTokensDoNotStopLater(t *testing.T) {
	decode := func(tokens []int32) string {
		var b strings.Builder
		for _, t := range tokens {
			b.WriteByte(byte('0' + t))
		}
		return b.String()
	}
	s := start(t, tiny(t, "llama"), Options{Decode: decode})
	p := trinity.SamplingParams{Temperature: 2, MaxTokens: 20, Seed: 1, IgnoreEOS: true}
	free := sample(t, s, []int32{7}, p)[0]
	text := decode(free.Tokens)
	p.Stop, p.MinTokens = []string{text[2:5]}, 6
	if strings.Contains(text[3:], p.Stop[0]) {
		t.Fatal("the string comes twice: choose another seed")
	}
	if got := sample(t, s, []int32{7}, p)[0]; len(got.Tokens) != 20 {
		t.Errorf("stopped after %d tokens by a string that ended at token 5, with min_tokens 6", len(got.Tokens))
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	cfg := *tiny(t, "llama").Config
	for _, c := range []struct {
		opts   Options
		change func(*model.Config)
		want   string
	}{
		{opts: Options{MaxSequences: -1}, want: "MaxSequences is -1"},
		{opts: Options{MaxTokens: -5}, want: "MaxTokens is -5"},
		{opts: Options{MaxModelLen: 128}, change: func(c *model.Config) { c.RopeScaling = &model.RopeScaling{Type: "dynamic", Factor: 2} }, want: "set MaxModelLen to 64"},
		{opts: Options{MaxModelLen: 40}, change: func(c *model.Config) {
			c.RopeScaling = &model.RopeScaling{Type: "longrope", Factor: 2, OriginalMaxPositions: 32,
				ShortFactors: make([]float64, c.HeadDim/2), LongFactors: make([]float64, c.HeadDim/2)}
		}, want: "set max_model_len to 32 or less"},
	} {
		changed := cfg
		if c.change != nil {
			c.change(&changed)
		}
		if s, err := New(changed, c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			if err == nil {
				s.Close()
			}
			t.Errorf("%+v: %v; want an error with %q", c.opts, err, c.want)
		}
	}
}
