package run

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
	"github.com/trinity-go/trinity/experience"
)

// writePending writes the experiences that are not trained on yet: of each the length of its binary form (varint, bytes), and the form, which has numbers exactly, the
// infinite ones too.
func writePending(path string, exps []*trinity.Experience) error {
	return durable.Replace(path, func(w io.Writer) error {
		var form, record []byte
		for _, e := range exps {
			var err error
			if form, err = experience.Append(form[:0], e); err != nil {
				return err
			}
			record = append(binary.AppendUvarint(record[:0], uint64(len(form))), form...)
			if _, err := w.Write(record); err != nil {
				return err
			}
		}
		return nil
	})
}

func readPending(path string) ([]*trinity.Experience, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []*trinity.Experience
	r := bufio.NewReader(f)
	for {
		e, err := nextPending(r)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s, experience %d: %w", path, len(out), err)
		}
		out = append(out, e)
	}
}

// nextPending is the next experience of the file; io.EOF says that there is none.
func nextPending(r *bufio.Reader) (*trinity.Experience, error) {
	length, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	var form bytes.Buffer // grows with what there is, whatever the length says
	if _, err := io.CopyN(&form, r, int64(length)); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return experience.Decode(form.Bytes())
}
