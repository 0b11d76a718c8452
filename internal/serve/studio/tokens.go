package studio

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/trace"
)

// measure computes what the table has beside what the trace says.
func measure(a *trace.Answer, step int64) answerStats {
	m := answerStats{Staleness: step - a.OldestVersion, Flags: flagsOf(a)}
	m.Advantage = meanOf(a.Mask, func(t int) (float64, bool) { return at(a.Advantages, t) })
	trainers := a.OldLogprobs
	if len(trainers) != len(a.Tokens) && len(a.Updates) > 0 && a.Updates[0].Update == 0 {
		trainers = a.Updates[0].Now
	}
	m.KL = meanOf(a.Mask, func(t int) (float64, bool) {
		sampled, ok := at(a.Logprobs, t)
		trained, ok2 := at(trainers, t)
		return sampled - trained, ok && ok2
	})
	return m
}

func at(stream trace.Floats, t int) (float64, bool) {
	if t >= len(stream) {
		return 0, false
	}
	return float64(stream[t]), true
}

// meanOf returns the mean of a number over the tokens that training learns; nil if there is none.
func meanOf(mask []bool, of func(t int) (float64, bool)) *Number {
	sum, n := 0.0, 0
	for t, learned := range mask {
		if v, ok := of(t); learned && ok {
			sum, n = sum+v, n+1
		}
	}
	if n == 0 {
		return nil
	}
	mean := Number(sum / float64(n))
	return &mean
}

// Limits of the flags, found by trial.
const (
	minRepeated   = 48   // tokens of an answer that may be called repetitive
	maxDistinct   = 0.35 // share of different sequences of four tokens
	minGarbled    = 16   // characters of an answer that may be called garbled
	maxUnreadable = 0.05 // share of characters that are none
)

// flagsOf marks an answer that repeats itself, that has characters nobody can read, or that a limit of
// tokens ended.
func flagsOf(a *trace.Answer) []string {
	flags := []string{}
	answer := a.Tokens[min(int(max(a.PromptTokens, 0)), len(a.Tokens)):]
	if len(answer) >= minRepeated {
		seen := map[[4]int32]bool{}
		for i := range len(answer) - 3 {
			seen[[4]int32(answer[i:i+4])] = true
		}
		if float64(len(seen)) < maxDistinct*float64(len(answer)-3) {
			flags = append(flags, "repetitive")
		}
	}
	characters, unreadable := 0, 0
	for _, c := range a.Response {
		characters++
		if c == utf8.RuneError || unicode.IsControl(c) && !strings.ContainsRune("\n\r\t", c) {
			unreadable++
		}
	}
	if characters >= minGarbled && float64(unreadable) > maxUnreadable*float64(characters) {
		flags = append(flags, "garbled")
	}
	switch trinity.Truncation(a.Truncated) {
	case trinity.ResponseTruncated, trinity.TokensTruncated:
		flags = append(flags, "no_stop")
	}
	return flags
}

// spell returns how the tokens of an answer read.
func spell(a *trace.Answer, texts map[int32]string) *trace.Spelled {
	return trace.Spell(a.Tokens, a.Mask, texts).Show(a.Shown())
}
