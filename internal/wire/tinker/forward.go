package tinker

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trinity-go/trinity/internal/wire/protobuf"
)

// ForwardBackward is the request of a forward pass, and of the backward pass unless ForwardOnly.
type ForwardBackward struct {
	ModelID     string
	SeqID       int32
	Data        []Datum
	Loss        string
	Config      []Setting // of the loss
	ForwardOnly bool
}

// Setting is an argument of a loss: a number, or a text.
type Setting struct {
	Name   string
	Number float64
	Text   *string
}

// Datum is a sequence with what its loss reads of each position.
type Datum struct {
	Input      []Chunk
	Inputs     []Named // of the loss
	InputSpans []Span  // of Input; which of its tokens were sampled where
	LossSpans  []Span  // of Inputs
}

// Named is a tensor with its name.
type Named struct {
	Name   string
	Tensor Tensor
}

// Chunk is a part of a sequence. It has one of its fields.
type Chunk struct {
	Tokens []byte // int32
	Image  []byte // an encoded message
	DMel   []byte // an encoded message: audio
}

// Span is where Length tokens come from: from Offset in what was given or sampled as the sequence.
type Span struct {
	IsSampled      bool
	SequenceID     string
	Offset, Length int64
}

// Tokens returns the ids of the sequence. It is an error if a chunk is no text.
func (d *Datum) Tokens() ([]int32, error) {
	var all []int32
	for i, c := range d.Input {
		switch {
		case c.Image != nil:
			return nil, fmt.Errorf("chunk %d is an image: this server reads text alone", i)
		case c.DMel != nil:
			return nil, fmt.Errorf("chunk %d is audio: this server reads text alone", i)
		case len(c.Tokens)%4 != 0:
			return nil, fmt.Errorf("chunk %d has %d bytes: want int32 tokens", i, len(c.Tokens))
		}
		for b := c.Tokens; len(b) > 0; b = b[4:] {
			all = append(all, int32(binary.LittleEndian.Uint32(b)))
		}
	}
	return all, nil
}

// TextChunk returns the chunk of these tokens.
func TextChunk(ids []int32) Chunk { return Chunk{Tokens: tokens(ids)} }

// Encode returns the request as a message. Numbers of Config stand in both of its maps, for older servers.
func (r *ForwardBackward) Encode() []byte {
	b := appendText(nil, 1, r.ModelID)
	b = appendInt(b, 2, int64(r.SeqID))
	for i := range r.Data {
		b = protobuf.AppendBytes(b, 3, r.Data[i].encode())
	}
	b = appendText(b, 4, r.Loss)
	for _, s := range r.Config {
		if s.Text == nil {
			b = protobuf.AppendBytes(b, 5, protobuf.AppendDouble(protobuf.AppendBytes(nil, 1, s.Name), 2, s.Number))
		}
	}
	if r.ForwardOnly {
		b = protobuf.AppendVarint(b, 6, 1)
	}
	for _, s := range r.Config {
		value := protobuf.AppendDouble(nil, 1, s.Number)
		if s.Text != nil {
			value = protobuf.AppendBytes(nil, 2, *s.Text)
		}
		b = protobuf.AppendBytes(b, 7, protobuf.AppendBytes(protobuf.AppendBytes(nil, 1, s.Name), 2, value))
	}
	return b
}

// maxParts bounds the data of a request with all that they are made of: what is empty takes two bytes of a message, and a
// hundred in memory.
const maxParts = 1 << 20

// parts counts the parts of a request.
type parts int

func (p *parts) add() error {
	if *p++; *p > maxParts {
		return fmt.Errorf("the request has more than %d data, chunks and tensors: send fewer at once", maxParts)
	}
	return nil
}

// DecodeForwardBackward reads a request. Its tensors and chunks are parts of message.
func DecodeForwardBackward(message []byte) (*ForwardBackward, error) {
	r, n := &ForwardBackward{}, new(parts)
	var older []Setting // the map that has numbers alone
	err := protobuf.Each(message, func(f protobuf.Field) (err error) {
		switch f.Number {
		case 1:
			r.ModelID, err = text(f)
		case 2:
			var id uint64
			if id, err = f.Varint(); int64(id) != int64(int32(id)) {
				return fmt.Errorf("seq_id is %d: want 32 bits", int64(id))
			}
			r.SeqID = int32(id)
		case 3:
			d, err := decodeDatum(f, n)
			r.Data = append(r.Data, d)
			if err != nil {
				return fmt.Errorf("datum %d: %w", len(r.Data)-1, err)
			}
		case 4:
			r.Loss, err = text(f)
		case 5, 7:
			s, err := decodeSetting(f)
			if err == nil {
				err = n.add()
			}
			if f.Number == 5 {
				older = append(older, s)
			} else {
				r.Config = append(r.Config, s)
			}
			return err
		case 6:
			var v uint64
			v, err = f.Varint()
			r.ForwardOnly = v != 0
		}
		return err
	})
	if r.Config == nil {
		r.Config = older
	}
	return r, err
}

func decodeSetting(f protobuf.Field) (s Setting, err error) {
	isNew := f.Number == 7
	s.Name, err = entry(f, func(f protobuf.Field) (err error) {
		if !isNew {
			s.Number, err = f.Double()
			return err
		}
		return f.Each(func(f protobuf.Field) (err error) {
			switch f.Number {
			case 1:
				s.Number, err = f.Double()
			case 2:
				var v string
				v, err = text(f)
				s.Text = &v
			}
			return err
		})
	})
	return s, err
}

func (d *Datum) encode() []byte {
	var b []byte
	for _, c := range d.Input {
		var chunk []byte
		switch {
		case c.Image != nil:
			chunk = protobuf.AppendBytes(chunk, 2, c.Image)
		case c.DMel != nil:
			chunk = protobuf.AppendBytes(chunk, 3, c.DMel)
		default:
			chunk = protobuf.AppendBytes(chunk, 1, appendFilled(nil, 1, c.Tokens))
		}
		b = protobuf.AppendBytes(b, 1, chunk)
	}
	for i := range d.Inputs {
		b = protobuf.AppendBytes(b, 2, protobuf.AppendBytes(protobuf.AppendBytes(nil, 1, d.Inputs[i].Name), 2, d.Inputs[i].Tensor.encode()))
	}
	for _, s := range d.InputSpans {
		b = protobuf.AppendBytes(b, 3, s.encode())
	}
	for _, s := range d.LossSpans {
		b = protobuf.AppendBytes(b, 4, s.encode())
	}
	return b
}

// maxInputs bounds the inputs of a loss, each of which is compared with the others.
const maxInputs = 16

func decodeDatum(f protobuf.Field, n *parts) (d Datum, err error) {
	if err := n.add(); err != nil {
		return d, err
	}
	err = f.Each(func(f protobuf.Field) error {
		if err := n.add(); err != nil {
			return err
		}
		switch f.Number {
		case 1:
			c, err := decodeChunk(f)
			d.Input = append(d.Input, c)
			return err
		case 2:
			if len(d.Inputs) == maxInputs {
				return fmt.Errorf("loss_fn_inputs has more than %d entries", maxInputs)
			}
			n, err := decodeNamed(f)
			for _, other := range d.Inputs {
				if other.Name == n.Name {
					return fmt.Errorf("loss_fn_inputs has %q twice", n.Name)
				}
			}
			d.Inputs = append(d.Inputs, n)
			return err
		case 3, 4:
			s, err := decodeSpan(f)
			if f.Number == 3 {
				d.InputSpans = append(d.InputSpans, s)
			} else {
				d.LossSpans = append(d.LossSpans, s)
			}
			return err
		}
		return nil
	})
	return d, err
}

func decodeNamed(f protobuf.Field) (n Named, err error) {
	n.Name, err = entry(f, func(f protobuf.Field) (err error) {
		n.Tensor, err = decodeTensor(f)
		return err
	})
	return n, err
}

func decodeChunk(f protobuf.Field) (c Chunk, err error) {
	err = f.Each(func(f protobuf.Field) (err error) {
		c = Chunk{} // the last one of several counts
		switch f.Number {
		case 1:
			err = f.Each(func(f protobuf.Field) (err error) {
				if f.Number == 1 {
					c.Tokens, err = f.Bytes()
				}
				return err
			})
		case 2:
			c.Image, err = f.Bytes()
		case 3:
			c.DMel, err = f.Bytes()
		}
		return err
	})
	return c, err
}

func (s *Span) encode() []byte {
	of := appendText(nil, 1, s.SequenceID)
	of = appendInt(appendInt(of, 2, s.Offset), 3, s.Length)
	if s.IsSampled {
		return protobuf.AppendBytes(nil, 2, of)
	}
	return protobuf.AppendBytes(nil, 1, of)
}

func decodeSpan(f protobuf.Field) (s Span, err error) {
	err = f.Each(func(f protobuf.Field) error {
		if f.Number != 1 && f.Number != 2 {
			return nil
		}
		s = Span{IsSampled: f.Number == 2}
		return f.Each(func(f protobuf.Field) (err error) {
			switch f.Number {
			case 1:
				s.SequenceID, err = text(f)
			case 2:
				s.Offset, err = enum[int64](f)
			case 3:
				s.Length, err = enum[int64](f)
			}
			return err
		})
	})
	return s, err
}

// entry returns the key of an entry of a map. read gets its value.
func entry(f protobuf.Field, read func(protobuf.Field) error) (key string, err error) {
	err = f.Each(func(f protobuf.Field) (err error) {
		switch f.Number {
		case 1:
			key, err = text(f)
		case 2:
			err = read(f)
		}
		return err
	})
	return key, err
}

// text returns the text of a field.
func text(f protobuf.Field) (string, error) {
	b, err := f.Bytes()
	return string(b), err
}

// enum returns the integer of a field.
func enum[T ~uint64 | ~int64](f protobuf.Field) (T, error) {
	v, err := f.Varint()
	return T(v), err
}

// appendText, appendInt and appendFilled append a field, and nothing for its default.
func appendText(b []byte, number protobuf.Number, v string) []byte {
	return appendFilled(b, number, []byte(v))
}

func appendFilled(b []byte, number protobuf.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protobuf.AppendBytes(b, number, v)
}

func appendInt(b []byte, number protobuf.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return protobuf.AppendVarint(b, number, uint64(v))
}

// appendShape appends a packed list of integers.
func appendShape(b []byte, number protobuf.Number, shape []int64) []byte {
	var packed []byte
	for _, d := range shape {
		packed = protowire.AppendVarint(packed, uint64(d))
	}
	return appendFilled(b, number, packed)
}

// decodeShape appends an integer, or a packed list of them.
func decodeShape(shape []int64, f protobuf.Field) ([]int64, error) {
	if v, err := f.Varint(); err == nil {
		return append(shape, int64(v)), nil
	}
	packed, err := f.Bytes()
	for len(packed) > 0 && err == nil {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		shape, packed = append(shape, int64(v)), packed[n:]
	}
	if len(shape) > maxDims {
		err = fmt.Errorf("a shape has %d numbers: want at most %d", len(shape), maxDims)
	}
	return shape, err
}

const maxDims = 8
