package torch

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// message is the body of a request or a reply: a safetensors file whose metadata are JSON values.
type message struct {
	arrays []safetensors.Entry
	meta   map[string]any
}

func (m message) encode() ([]byte, error) {
	meta := map[string]string{}
	for key, value := range m.meta {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		meta[key] = string(text)
	}
	var b bytes.Buffer
	err := safetensors.WriteTo(&b, m.arrays, meta)
	return b.Bytes(), err
}

// reply is a decoded answer.
type reply struct{ file *safetensors.File }

func decode(body []byte) (reply, error) {
	file, err := safetensors.Parse("the worker's answer", body)
	return reply{file}, err
}

// value reads a metadata value.
func (r reply) value(key string, into any) error {
	text, ok := r.file.Metadata[key]
	if !ok {
		return fmt.Errorf("the worker's answer has no %s", key)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("the worker's answer: %s is %.80s: %w", key, text, err)
	}
	return nil
}

// stream reads a vector of n numbers.
func (r reply) stream(name string, n int) ([]float32, error) {
	t, ok := r.file.Tensor(name)
	if !ok || t.DType != safetensors.F32 || t.Len() != n {
		return nil, fmt.Errorf("the worker's answer lacks the stream %s of %d numbers", name, n)
	}
	v := make([]float32, n)
	return v, t.Range(v, 0)
}
