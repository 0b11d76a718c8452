package server

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

// routed returns the experts of a completion, from a place on, in base64: an .npy file or, bare, its numbers of 32 bits.
func (f *Fake) routed(s *sampled, from int, bare bool) any {
	width := f.experts[0] * f.experts[1]
	if width == 0 || f.tells(NoExperts) {
		return nil
	}
	experts := append([]byte(nil), s.Experts[from*width:]...)
	if f.tells(FewExperts) {
		experts = experts[width:]
	}
	if f.tells(FarExperts) {
		experts[len(experts)-1] = 200
	}
	var data []byte
	if !bare {
		header := fmt.Sprintf("{'descr': '|u1', 'fortran_order': False, 'shape': (%d, %d, %d), }", len(experts)/width, f.experts[0], f.experts[1])
		header += strings.Repeat(" ", 63-(len(header)+10)%64) + "\n"
		data = append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header))), header...)
	}
	for _, e := range experts {
		if data = append(data, e); bare {
			data = append(data, 0, 0, 0)
		}
	}
	return base64.StdEncoding.EncodeToString(data)
}
