package experience

import (
	"errors"
	"reflect"
	"testing"

	"github.com/trinity-go/trinity"
)

func delivery() trinity.Delivery {
	other := full()
	other.ID.Run++
	return trinity.Delivery{Groups: []trinity.Group{{full(), other}, {}, {full()}}, Cursor: []byte(`{"step":3}`), Needs: 2}
}

func TestDeliveryRoundTrip(t *testing.T) {
	for _, want := range []trinity.Delivery{delivery(), {}, {Needs: -1, Cursor: []byte(`1`)}} {
		data, err := AppendDelivery(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeDelivery(data)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		for n := range data {
			if _, err := DecodeDelivery(data[:n]); err == nil {
				t.Errorf("the first %d of %d bytes were taken for a delivery", n, len(data))
			}
		}
		if _, err := DecodeDelivery(append(data, 0)); err == nil {
			t.Error("a byte too many was ignored")
		}
	}
	if data, err := AppendDelivery([]byte("before"),
		trinity.Delivery{Groups: []trinity.Group{{full(), {Info: map[string]any{"x": new(fickle)}}}}}); err == nil || string(data) != "before" {
		t.Errorf("wrote %q, %v, want an error and nothing", data, err)
	}
}

// fickle fails to marshal every second time.
type fickle int

func (f *fickle) MarshalJSON() ([]byte, error) {
	if *f++; *f%2 == 1 {
		return nil, errors.New("not now")
	}
	return []byte("1"), nil
}

func FuzzDecodeDelivery(f *testing.F) {
	data, err := AppendDelivery(nil, delivery())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(deliveryMagic + "\x00\x00\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := DecodeDelivery(data)
		if err != nil {
			return
		}
		again, err := AppendDelivery(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeDelivery(again); err != nil {
			t.Errorf("what was read cannot be read again: %v", err)
		}
	})
}
