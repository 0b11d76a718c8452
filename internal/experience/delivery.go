package experience

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
)

// The binary form of a delivery is the four bytes "TGD1", the version that it needs (zigzag
// varint), the length (varint) of its cursor, the cursor, and the number (varint) of its groups.
// Each group is the number (varint) of its experiences; each experience is its length (varint) and
// its binary form.
const deliveryMagic = "TGD1"

// AppendDelivery appends the binary form of a delivery to dst. It fails as [Append] does.
func AppendDelivery(dst []byte, d trinity.Delivery) ([]byte, error) {
	before := len(dst)
	dst = append(dst, deliveryMagic...)
	dst = binary.AppendVarint(dst, d.Needs)
	dst = binary.AppendUvarint(dst, uint64(len(d.Cursor)))
	dst = append(dst, d.Cursor...)
	dst = binary.AppendUvarint(dst, uint64(len(d.Groups)))
	var one []byte
	for _, g := range d.Groups {
		dst = binary.AppendUvarint(dst, uint64(len(g)))
		for _, e := range g {
			var err error
			if one, err = Append(one[:0], e); err != nil {
				return dst[:before], err
			}
			dst = binary.AppendUvarint(dst, uint64(len(one)))
			dst = append(dst, one...)
		}
	}
	return dst, nil
}

// DecodeDelivery returns the delivery whose binary form is data. It copies what it needs of data.
func DecodeDelivery(data []byte) (trinity.Delivery, error) {
	var d trinity.Delivery
	if len(data) < len(deliveryMagic) || string(data[:len(deliveryMagic)]) != deliveryMagic {
		return d, fmt.Errorf("not a delivery: it does not begin with %s", deliveryMagic)
	}
	r := &reader{data: data[len(deliveryMagic):]}
	d.Needs = r.varint()
	if cursor := r.bytes(); len(cursor) > 0 {
		if !json.Valid(cursor) {
			return d, errors.New("the cursor of a delivery is not JSON")
		}
		d.Cursor = append(json.RawMessage(nil), cursor...)
	}
	number := 0
	for range r.count() {
		group := trinity.Group{}
		for range r.count() {
			e, err := Decode(r.bytes())
			if r.failed {
				return d, errDelivery
			}
			if err != nil {
				return d, fmt.Errorf("experience %d: %w", number, err)
			}
			group = append(group, e)
			number++
		}
		d.Groups = append(d.Groups, group)
	}
	if r.failed {
		return d, errDelivery
	}
	if len(r.data) > 0 {
		return d, fmt.Errorf("%d bytes follow a delivery", len(r.data))
	}
	return d, nil
}

var errDelivery = errors.New("a delivery ends too early")

// count reads the number of items that follow, each of which takes at least one byte.
func (r *reader) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.data)) {
		r.failed = true
		return 0
	}
	return n
}
