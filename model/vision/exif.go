package vision

import (
	"bytes"
	"encoding/binary"
)

// exifOfJPEG returns the Exif data of a JPEG file, which stands in a segment before the first scan.
func exifOfJPEG(data []byte) []byte {
	const app1, scan = 0xe1, 0xda
	for at := 2; at+4 <= len(data) && data[at] == 0xff; {
		marker, size := data[at+1], int(binary.BigEndian.Uint16(data[at+2:]))
		if marker == 0xff { // a fill byte
			at++
			continue
		}
		end := at + 2 + size
		if marker == scan || size < 2 || end > len(data) {
			return nil
		}
		if exif, ok := bytes.CutPrefix(data[at+4:end], []byte("Exif\x00\x00")); marker == app1 && ok {
			return exif
		}
		at = end
	}
	return nil
}

// exifOfPNG returns the Exif data of a PNG file, which is a chunk.
func exifOfPNG(data []byte) []byte {
	for at := 8; at+8 <= len(data); {
		size := int64(binary.BigEndian.Uint32(data[at:]))
		end := int64(at) + 8 + size
		if end > int64(len(data)) {
			return nil
		}
		if string(data[at+4:at+8]) == "eXIf" {
			return data[at+8 : end]
		}
		at = int(min(end+4, int64(len(data)))) // the chunk's checksum
	}
	return nil
}

// orientation returns the orientation of Exif data, 1 if it has none.
func orientation(exif []byte) int {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(exif, []byte("II*\x00")):
	case bytes.HasPrefix(exif, []byte("MM\x00*")):
		order = binary.BigEndian
	default:
		return 1
	}
	if len(exif) < 8 {
		return 1
	}
	at := int64(order.Uint32(exif[4:]))
	if at+2 > int64(len(exif)) {
		return 1
	}
	const entry, tag, short = 12, 0x0112, 3
	fields := exif[at+2:]
	for range order.Uint16(exif[at:]) {
		if len(fields) < entry {
			break
		}
		if order.Uint16(fields) == tag && order.Uint16(fields[2:]) == short {
			if turned := int(order.Uint16(fields[8:])); turned >= 1 && turned <= 8 {
				return turned
			}
			break
		}
		fields = fields[entry:]
	}
	return 1
}
