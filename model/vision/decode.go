package vision

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
)

const (
	maxBytes  = 20 << 20
	maxPixels = 64_000_000
)

// riff begins files of sound and film, too.
const riff = "RIFF"

// format is a file format of images, which its first bytes show.
type format struct {
	begins string
	size   func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
	exif   func([]byte) []byte // the image's Exif data; nil if it has none
}

var formats = []format{
	{"\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode, exifOfPNG},
	{"\xff\xd8", jpeg.DecodeConfig, jpeg.Decode, exifOfJPEG},
	{"GIF8", gif.DecodeConfig, gif.Decode, func([]byte) []byte { return nil }},
	{riff, webpSize, decodeWebP, exifOfWebP},
}

// decode reads an image: the first frame, upright by its Exif orientation, on white where it is
// transparent. It reads the size first, so that a small file cannot take much memory.
func decode(data []byte) (*image.RGBA, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("the image has %d bytes, at most %d are read", len(data), maxBytes)
	}
	f, err := formatOf(data)
	if err != nil {
		return nil, err
	}
	size, err := f.size(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("the image cannot be read: %w", err)
	}
	if size.Width < 1 || size.Height < 1 || size.Width > maxPixels/size.Height {
		return nil, fmt.Errorf("the image has %d×%d pixels, 1 to %d are read", size.Width, size.Height, maxPixels)
	}
	img, err := f.decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("the image cannot be read: %w", err)
	}
	flat := image.NewRGBA(image.Rect(0, 0, size.Width, size.Height))
	draw.Draw(flat, flat.Rect, image.White, image.Point{}, draw.Src)
	draw.Draw(flat, img.Bounds(), img, img.Bounds().Min, draw.Over) // a frame of a GIF may cover a part only
	return upright(flat, orientation(f.exif(data))), nil
}

func formatOf(data []byte) (format, error) {
	for _, f := range formats {
		if bytes.HasPrefix(data, []byte(f.begins)) && (f.begins != riff || len(data) >= 12 && string(data[8:12]) == "WEBP") {
			return f, nil
		}
	}
	return format{}, errors.New("the bytes are no PNG, JPEG, GIF or WebP image")
}

// upright turns an image as its Exif orientation, 1 … 8, says.
func upright(img *image.RGBA, orientation int) *image.RGBA {
	if orientation <= 1 {
		return img
	}
	width, height := img.Rect.Dx(), img.Rect.Dy()
	if orientation >= 5 {
		width, height = height, width
	}
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			fromX, fromY := x, y
			if orientation >= 5 {
				fromX, fromY = y, x
			}
			switch orientation {
			case 2, 3, 7, 8:
				fromX = img.Rect.Dx() - 1 - fromX
			}
			switch orientation {
			case 3, 4, 6, 7:
				fromY = img.Rect.Dy() - 1 - fromY
			}
			copy(out.Pix[out.PixOffset(x, y):][:4], img.Pix[img.PixOffset(fromX, fromY):])
		}
	}
	return out
}
