package buffer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// A record of a file log consists of
//   - recordForm;
//   - the version that the delivery needs (zigzag varint);
//   - the length (varint) and name of the explorer, and the number of the delivery (varint);
//   - the length (varint) and bytes of the cursor;
//   - the numbers of rollouts, experiences and groups, and of the experiences of each group
//     (varints);
//   - the length (varint) and binary form, see package experience, of each experience.
const recordForm = 0xd2

var (
	errRecord = errors.New("the record of a delivery ends too early")
	errForm   = errors.New("the record was written by another version of the program: give the run another name to begin anew")
)

// appendRecord appends a record in this form to dst.
func appendRecord(dst []byte, r Record) ([]byte, error) {
	dst = binary.AppendVarint(append(dst, recordForm), r.Needs)
	dst = binary.AppendUvarint(dst, uint64(len(r.Explorer)))
	dst = append(dst, r.Explorer...)
	dst = binary.AppendUvarint(dst, uint64(r.Delivery))
	dst = binary.AppendUvarint(dst, uint64(len(r.Cursor)))
	dst = append(dst, r.Cursor...)
	for _, n := range []int{r.Rollouts, r.Experiences, len(r.Groups)} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for _, g := range r.Groups {
		dst = binary.AppendUvarint(dst, uint64(len(g)))
	}
	var one []byte
	for _, g := range r.Groups {
		for _, e := range g {
			var err error
			if one, err = experience.Append(one[:0], e); err != nil {
				return nil, err
			}
			dst = binary.AppendUvarint(dst, uint64(len(one)))
			dst = append(dst, one...)
		}
	}
	return dst, nil
}

// readHead reads a record up to the number of its groups, where rest begins.
func readHead(record []byte) (h Head, rest []byte, err error) {
	if len(record) == 0 || record[0] != recordForm {
		return h, nil, errForm
	}
	needs, used := binary.Varint(record[1:])
	if used <= 0 {
		return h, nil, errRecord
	}
	name, rest, err := prefixed(record[1+used:])
	if err != nil {
		return h, nil, err
	}
	number, rest, err := count(rest)
	if err != nil {
		return h, nil, err
	}
	cursor, rest, err := prefixed(rest)
	if err != nil {
		return h, nil, err
	}
	h = Head{Explorer: string(name), Delivery: int64(number), Needs: needs, Cursor: append(json.RawMessage(nil), cursor...)}
	for _, n := range []*int{&h.Rollouts, &h.Experiences} {
		if *n, rest, err = count(rest); err != nil {
			return h, nil, err
		}
		if *n > len(rest) {
			return h, nil, errRecord
		}
	}
	return h, rest, nil
}

// readRecord decodes a record with its experiences from index from to before index to.
func readRecord(record []byte, from, to int) (Record, error) {
	h, rest, err := readHead(record)
	if err != nil {
		return Record{}, err
	}
	sizes, rest, err := readSizes(rest, h.Experiences)
	if err != nil {
		return Record{}, err
	}
	r, i := Record{Head: h}, 0
	for _, size := range sizes {
		var g trinity.Group
		for ; size > 0; size-- {
			data, after, err := prefixed(rest)
			if err != nil {
				return r, err
			}
			if rest = after; i >= from && i < to {
				e, err := experience.Decode(data)
				if err != nil {
					return r, fmt.Errorf("experience %d: %w", i, err)
				}
				g = append(g, e)
			}
			i++
		}
		if len(g) > 0 {
			r.Groups = append(r.Groups, g)
		}
		if i >= to {
			break
		}
	}
	return r, nil
}

// readSizes reads the sizes of the groups, which must add up to the number of experiences.
func readSizes(data []byte, experiences int) (sizes []int, rest []byte, err error) {
	groups, rest, err := count(data)
	if err != nil || groups > len(rest) {
		return nil, nil, errRecord
	}
	sizes = make([]int, groups)
	for i := range sizes {
		if sizes[i], rest, err = count(rest); err != nil || sizes[i] > experiences {
			return nil, nil, errRecord
		}
		experiences -= sizes[i]
	}
	if experiences != 0 {
		return nil, nil, errRecord
	}
	return sizes, rest, nil
}

// count reads a number that fits an int from the front of data.
func count(data []byte) (n int, rest []byte, err error) {
	v, used := binary.Uvarint(data)
	if used <= 0 || v > 1<<62 {
		return 0, nil, errRecord
	}
	return int(v), data[used:], nil
}

// prefixed reads a length and as many bytes from the front of data.
func prefixed(data []byte) (payload, rest []byte, err error) {
	n, rest, err := count(data)
	if err != nil || n > len(rest) {
		return nil, nil, errRecord
	}
	return rest[:n], rest[n:], nil
}
