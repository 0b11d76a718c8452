package vision

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"

	"golang.org/x/image/vp8"
	"golang.org/x/image/vp8l"
	"golang.org/x/image/webp"
)

// webpFile is the chunks of a WebP file that this program reads.
type webpFile struct {
	whole    []byte
	lossy    []byte // the chunk VP8: luma and chroma
	lossless []byte // the chunk VP8L: red, green, blue and alpha
	alpha    []byte // the chunk ALPH: the alpha of a lossy image
	exif     []byte
	canvas   image.Point // of the chunk VP8X; 0 without one
}

// parseWebP finds the chunks of a WebP file.
func parseWebP(data []byte) (f webpFile, err error) {
	const head, chunk, animated = 12, 8, 1 << 1
	f.whole = data
	if len(data) < head {
		return f, io.ErrUnexpectedEOF
	}
	end := min(int64(len(data)), chunk+int64(binary.LittleEndian.Uint32(data[4:])))
	for rest := data[head:end]; len(rest) >= chunk; {
		size := int64(binary.LittleEndian.Uint32(rest[4:]))
		if size > int64(len(rest)-chunk) {
			return f, io.ErrUnexpectedEOF
		}
		name, body := string(rest[:4]), rest[chunk:chunk+size]
		rest = rest[min(chunk+size+size%2, int64(len(rest))):]
		switch {
		case name == "VP8X" && len(body) >= 10:
			if body[0]&animated != 0 {
				return f, errors.New("it is animated, and a model sees no film: convert it to PNG")
			}
			wide := binary.LittleEndian.Uint32(body[4:]) & (1<<24 - 1)
			f.canvas = image.Pt(int(wide)+1, int(binary.LittleEndian.Uint32(body[6:])>>8)+1)
		case name == "VP8 " && f.lossy == nil:
			f.lossy = body
		case name == "VP8L" && f.lossless == nil:
			f.lossless = body
		case name == "ALPH" && f.alpha == nil:
			f.alpha = body
		case name == "EXIF" && f.exif == nil:
			f.exif = bytes.TrimPrefix(body, []byte("Exif\x00\x00"))
		}
	}
	if (f.lossy == nil) == (f.lossless == nil) {
		return f, errors.New("it has no chunk of pixels, or two of them")
	}
	return f, nil
}

// size returns the size that the pixels have. That of the canvas, which is another number in the file,
// must be the same: it says nothing of the memory that they take.
func (f *webpFile) size() (image.Config, error) {
	var size image.Config
	if f.lossless != nil {
		var err error
		if size, err = vp8l.DecodeConfig(bytes.NewReader(f.lossless)); err != nil {
			return size, err
		}
	} else {
		d := vp8.NewDecoder()
		d.Init(bytes.NewReader(f.lossy), len(f.lossy))
		head, err := d.DecodeFrameHeader()
		if err != nil {
			return size, err
		}
		size.Width, size.Height = head.Width, head.Height
	}
	if at := image.Pt(size.Width, size.Height); f.canvas != (image.Point{}) && at != f.canvas {
		return size, fmt.Errorf("its canvas has %d×%d pixels and its image %d×%d", f.canvas.X, f.canvas.Y, at.X, at.Y)
	}
	return size, nil
}

func webpSize(in io.Reader) (image.Config, error) {
	f, err := readWebP(in)
	if err != nil {
		return image.Config{}, err
	}
	return f.size()
}

func readWebP(in io.Reader) (webpFile, error) {
	data, err := io.ReadAll(in)
	if err != nil {
		return webpFile{}, err
	}
	return parseWebP(data)
}

func exifOfWebP(data []byte) []byte {
	f, err := parseWebP(data)
	if err != nil {
		return nil
	}
	return f.exif
}

// decodeWebP decodes an image of which size has returned no error.
func decodeWebP(in io.Reader) (image.Image, error) {
	f, err := readWebP(in)
	if err != nil {
		return nil, err
	}
	if f.lossless != nil {
		return vp8l.Decode(bytes.NewReader(f.lossless))
	}
	if f.alpha != nil {
		img, err := webp.Decode(bytes.NewReader(f.whole))
		if err != nil {
			return nil, err
		}
		both, ok := img.(*image.NYCbCrA)
		if !ok {
			return nil, errors.New("its alpha is not announced")
		}
		out := coloured(&both.YCbCr)
		for y := range out.Rect.Dy() {
			for x := range out.Rect.Dx() {
				out.Pix[out.PixOffset(x, y)+3] = both.A[both.AOffset(x, y)]
			}
		}
		return out, nil
	}
	d := vp8.NewDecoder()
	d.Init(bytes.NewReader(f.lossy), len(f.lossy))
	if _, err := d.DecodeFrameHeader(); err != nil {
		return nil, err
	}
	img, err := d.DecodeFrame()
	if err != nil {
		return nil, err
	}
	return coloured(img), nil
}

// coloured converts a lossy image to red, green and blue. Luma is 16 to 235 there, and not 0 to 255 as
// in package image. Chroma is interpolated from the four nearest samples, 9 : 3 : 3 : 1. The bytes
// are those of libwebp, and so of Pillow.
func coloured(img *image.YCbCr) *image.NRGBA {
	width, height := img.Rect.Dx(), img.Rect.Dy()
	out := image.NewNRGBA(image.Rect(0, 0, width, height))
	columns, rows := (width+1)/2, (height+1)/2
	for y := range height {
		near, far := y/2, min(max(y/2-1+2*(y%2), 0), rows-1)
		luma := img.Y[y*img.YStride:]
		nearU, farU := img.Cb[near*img.CStride:], img.Cb[far*img.CStride:]
		nearV, farV := img.Cr[near*img.CStride:], img.Cr[far*img.CStride:]
		for x := range width {
			at, beside := x/2, min(max(x/2-1+2*(x%2), 0), columns-1)
			u := (9*int(nearU[at]) + 3*int(nearU[beside]) + 3*int(farU[at]) + int(farU[beside]) + 8) >> 4
			v := (9*int(nearV[at]) + 3*int(nearV[beside]) + 3*int(farV[at]) + int(farV[beside]) + 8) >> 4
			p := out.Pix[y*out.Stride+4*x:]
			p[0], p[1], p[2], p[3] = rgbOf(int(luma[x]), u, v, 255)
		}
	}
	return out
}

// rgbOf converts by ITU-R BT.601, in numbers of 14 bits of which products keep 6.
func rgbOf(y, u, v int, alpha byte) (r, g, b, a byte) {
	product := func(x, by int) int { return x * by >> 8 }
	clip6 := func(x int) byte { return byte(min(max(x>>6, 0), 255)) }
	light := product(y, 19077)
	return clip6(light + product(v, 26149) - 14234), clip6(light - product(u, 6419) - product(v, 13320) + 8708),
		clip6(light + product(u, 33050) - 17685), alpha
}
