package buffer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/experience"
)

// A delivery's record in a log: the version that it needs (zigzag varint), the length (varint) and name of its explorer, the length (varint) of its cursor
// and the cursor, the numbers of its rollouts and of its experiences (varints), and of each experience the length (varint) and the form of package
// experience.

// appendDelivery appends the record of an explorer's delivery to dst.
func appendDelivery(dst []byte, explorer string, d trinity.Delivery) ([]byte, error) {
	dst = binary.AppendVarint(dst, d.Needs)
	dst = binary.AppendUvarint(dst, uint64(len(explorer)))
	dst = append(dst, explorer...)
	dst = binary.AppendUvarint(dst, uint64(len(d.Cursor)))
	dst = append(dst, d.Cursor...)
	exps := slices.Concat(d.Groups...)
	dst = binary.AppendUvarint(dst, uint64(rollouts(exps)))
	dst = binary.AppendUvarint(dst, uint64(len(exps)))
	var one []byte
	for _, e := range exps {
		var err error
		if one, err = experience.Append(one[:0], e); err != nil {
			return nil, err
		}
		dst = binary.AppendUvarint(dst, uint64(len(one)))
		dst = append(dst, one...)
	}
	return dst, nil
}

// delivered is a record that was read.
type delivered struct {
	needs    int64
	explorer string
	cursor   json.RawMessage
	rollouts int
	count    int    // experiences
	rest     []byte // of them
}

var errRecord = errors.New("the record of a delivery ends too early")

// readDelivery reads a record but for its experiences, and copies the cursor.
func readDelivery(record []byte) (delivered, error) {
	needs, used := binary.Varint(record)
	if used <= 0 {
		return delivered{}, errRecord
	}
	explorer, record, err := prefixed(record[used:])
	if err != nil {
		return delivered{}, err
	}
	cursor, record, err := prefixed(record)
	if err != nil {
		return delivered{}, err
	}
	d := delivered{needs: needs, explorer: string(explorer), cursor: append(json.RawMessage(nil), cursor...)}
	for _, n := range []*int{&d.rollouts, &d.count} {
		v, used := binary.Uvarint(record)
		if used <= 0 || v > uint64(len(record)) {
			return delivered{}, errRecord
		}
		*n, record = int(v), record[used:]
	}
	d.rest = record
	return d, nil
}

// prefixed takes a length and as many bytes off the front.
func prefixed(data []byte) (payload, rest []byte, err error) {
	n, used := binary.Uvarint(data)
	if used <= 0 || n > uint64(len(data)-used) {
		return nil, nil, errRecord
	}
	return data[used : used+int(n)], data[used+int(n):], nil
}

// experiences decodes those from index from up to index to.
func (d *delivered) experiences(from, to int) ([]*trinity.Experience, error) {
	out := make([]*trinity.Experience, 0, max(0, to-from))
	rest := d.rest
	for i := range to {
		data, after, err := prefixed(rest)
		if err != nil {
			return nil, err
		}
		rest = after
		if i < from {
			continue
		}
		e, err := experience.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("experience %d: %w", i, err)
		}
		out = append(out, e)
	}
	return out, nil
}
