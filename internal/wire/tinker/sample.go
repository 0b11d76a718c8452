package tinker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/trinity-go/trinity/internal/wire/protobuf"
)

// Samples is the result of sampling.
type Samples struct {
	Sequences          []Sequence
	PromptLogprobs     []float32 // [P] nats; NaN where there is none; nil if they were not asked for
	PromptTop          *Top      // [P, K]
	CachedPrompt       int32     // tokens of the prompt that were not computed again
	PromptTargets      *Tensor   // [P, K] nats
	PromptAlternatives *Alternatives
}

// Sequence is what was sampled once.
type Sequence struct {
	ReachedLength bool // it has max_tokens; else it has stopped
	Tokens        []int32
	Logprobs      []float32 // nats
	Top           *Top      // [tokens, K]
}

// Top are the K most likely tokens of each position, row by row. A row that has fewer ends with token 0 of NoLogprob.
type Top struct {
	Tokens    []int32   // [Length·K]
	Logprobs  []float32 // [Length·K] nats
	K, Length uint32
}

// NoLogprob is the log-probability of an empty cell of a Top.
const NoLogprob = -99999

// Alternatives are tokens that could stand at each position of the prompt.
type Alternatives struct{ Tokens, Logprobs Tensor }

// Encode returns the result as a message.
func (s *Samples) Encode() []byte {
	var b []byte
	for _, q := range s.Sequences {
		var of []byte
		if q.ReachedLength {
			of = protobuf.AppendVarint(of, 1, 1)
		}
		of = appendFilled(of, 2, tokens(q.Tokens))
		if q.Logprobs != nil {
			of = protobuf.AppendBytes(of, 3, floats(q.Logprobs))
		}
		if q.Top != nil {
			of = protobuf.AppendBytes(of, 4, q.Top.encode())
		}
		b = protobuf.AppendBytes(b, 1, of)
	}
	if s.PromptLogprobs != nil {
		b = protobuf.AppendBytes(b, 2, floats(s.PromptLogprobs))
	}
	if s.PromptTop != nil {
		b = protobuf.AppendBytes(b, 3, s.PromptTop.encode())
	}
	b = appendInt(b, 4, int64(s.CachedPrompt))
	if s.PromptTargets != nil {
		b = protobuf.AppendBytes(b, 5, s.PromptTargets.encode())
	}
	if a := s.PromptAlternatives; a != nil {
		b = protobuf.AppendBytes(b, 6, protobuf.AppendBytes(protobuf.AppendBytes(nil, 1, a.Tokens.encode()), 2, a.Logprobs.encode()))
	}
	return b
}

func (t *Top) encode() []byte {
	b := appendFilled(appendFilled(nil, 1, tokens(t.Tokens)), 2, floats(t.Logprobs))
	return appendInt(appendInt(b, 3, int64(t.K)), 4, int64(t.Length))
}

// DecodeSamples reads the result of sampling.
func DecodeSamples(message []byte) (*Samples, error) {
	s := &Samples{}
	return s, protobuf.Each(message, func(f protobuf.Field) (err error) {
		switch f.Number {
		case 1:
			var q Sequence
			q, err = decodeSequence(f)
			s.Sequences = append(s.Sequences, q)
		case 2:
			s.PromptLogprobs, err = words(f, math.Float32frombits)
		case 3:
			s.PromptTop, err = decodeTop(f)
		case 4:
			var v int64
			v, err = enum[int64](f)
			s.CachedPrompt = int32(v)
		case 5:
			s.PromptTargets = &Tensor{}
			*s.PromptTargets, err = decodeTensor(f)
		case 6:
			s.PromptAlternatives = &Alternatives{}
			err = f.Each(func(f protobuf.Field) (err error) {
				switch f.Number {
				case 1:
					s.PromptAlternatives.Tokens, err = decodeTensor(f)
				case 2:
					s.PromptAlternatives.Logprobs, err = decodeTensor(f)
				}
				return err
			})
		}
		return err
	})
}

func decodeSequence(f protobuf.Field) (q Sequence, err error) {
	err = f.Each(func(f protobuf.Field) (err error) {
		switch f.Number {
		case 1:
			var reason uint64
			reason, err = f.Varint()
			q.ReachedLength = reason == 1
		case 2:
			q.Tokens, err = words(f, func(v uint32) int32 { return int32(v) })
		case 3:
			q.Logprobs, err = words(f, math.Float32frombits)
		case 4:
			q.Top, err = decodeTop(f)
		}
		return err
	})
	if err == nil && q.Logprobs != nil && len(q.Logprobs) != len(q.Tokens) {
		err = fmt.Errorf("a sequence has %d tokens and %d log-probabilities", len(q.Tokens), len(q.Logprobs))
	}
	return q, err
}

func decodeTop(f protobuf.Field) (*Top, error) {
	t := &Top{}
	err := f.Each(func(f protobuf.Field) (err error) {
		var v uint64
		switch f.Number {
		case 1:
			t.Tokens, err = words(f, func(v uint32) int32 { return int32(v) })
		case 2:
			t.Logprobs, err = words(f, math.Float32frombits)
		case 3:
			v, err = f.Varint()
			t.K = uint32(v)
		case 4:
			v, err = f.Varint()
			t.Length = uint32(v)
		}
		return err
	})
	if n := uint64(t.K) * uint64(t.Length); err == nil && (n != uint64(len(t.Tokens)) || n != uint64(len(t.Logprobs))) {
		err = fmt.Errorf("%d × %d most likely tokens come as %d tokens and %d log-probabilities",
			t.Length, t.K, len(t.Tokens), len(t.Logprobs))
	}
	return t, err
}

// words returns the numbers of 32 bits that a field holds.
func words[T any](f protobuf.Field, of func(uint32) T) ([]T, error) {
	b, err := f.Bytes()
	if err == nil && len(b)%4 != 0 {
		err = errors.New("numbers of 32 bits end within one")
	}
	if err != nil {
		return nil, err
	}
	all := make([]T, len(b)/4)
	for i := range all {
		all[i] = of(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return all, nil
}
