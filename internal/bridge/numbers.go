package bridge

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
)

// Pack returns numbers in the form of the wire: base64 of little-endian float32.
func Pack(values []float32) string {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// Unpack returns the numbers of Pack.
func Unpack(text string) ([]float32, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the numbers are no base64")
	}
	if len(raw)%4 != 0 {
		return nil, errors.New("the numbers are no float32: their bytes are no multiple of 4")
	}
	values := make([]float32, len(raw)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return values, nil
}
