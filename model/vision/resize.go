package vision

import (
	"image"
	"math"
)

// filter is a kernel of Pillow's resize. Its numbers are those of preprocessor_config.json's resample.
type filter struct {
	support float64 // the weight is 0 beyond it
	weight  func(x float64) float64
}

var filters = map[int]filter{
	1: {3, lanczos},
	2: {1, func(x float64) float64 { return max(0, 1-math.Abs(x)) }},
	3: {2, bicubic},
}

// weightBits are the fractional bits of a weight. They leave 8 bits for the pixel and 2 for the sum.
const weightBits = 32 - 8 - 2

// taps are the weights of the pixels of a line from first on, of which one output pixel is made.
type taps struct {
	first   int
	weights []int
}

// tapsOf returns the taps of each of to output pixels of a line of from pixels.
func tapsOf(f filter, from, to int) []taps {
	scale := float64(from) / float64(to)
	stretch := max(scale, 1)
	support := f.support * stretch
	all := make([]taps, to)
	exact := make([]float64, 0, 2*int(math.Ceil(support))+1)
	for i := range all {
		centre := float64((float64(i) + 0.5) * scale) // the conversion keeps compilers from fusing it with the next sum
		first := max(0, int(centre-support+0.5))
		end := min(from, int(centre+support+0.5))
		exact = exact[:0]
		sum := 0.0
		for x := first; x < end; x++ {
			w := f.weight((float64(x) - centre + 0.5) * (1 / stretch))
			exact = append(exact, w)
			sum += w
		}
		all[i] = taps{first, make([]int, len(exact))}
		for j, w := range exact {
			if sum != 0 {
				w /= sum
			}
			all[i].weights[j] = int(math.Copysign(0.5, w) + float64(w*(1<<weightBits)))
		}
	}
	return all
}

// resize returns the image at another size, with the bytes that Pillow gives. Weights and sums are
// integers, so that each machine gives the same image.
func resize(img *image.RGBA, width, height int, f filter) *image.RGBA {
	if from := img.Rect.Dx(); from != width {
		out := image.NewRGBA(image.Rect(0, 0, width, img.Rect.Dy()))
		all := tapsOf(f, from, width)
		for y := range img.Rect.Dy() {
			line := img.Pix[y*img.Stride:]
			for x, t := range all {
				gather(out.Pix[y*out.Stride+4*x:], line[4*t.first:], 4, t.weights)
			}
		}
		img = out
	}
	if from := img.Rect.Dy(); from != height {
		out := image.NewRGBA(image.Rect(0, 0, width, height))
		for y, t := range tapsOf(f, from, height) {
			for x := range width {
				gather(out.Pix[y*out.Stride+4*x:], img.Pix[t.first*img.Stride+4*x:], img.Stride, t.weights)
			}
		}
		img = out
	}
	return img
}

// gather stores the weighted sum of pixels that are step bytes apart.
func gather(dst, src []byte, step int, weights []int) {
	r, g, b := 1<<(weightBits-1), 1<<(weightBits-1), 1<<(weightBits-1)
	at := 0
	for _, w := range weights {
		p := src[at : at+3]
		r += int(p[0]) * w
		g += int(p[1]) * w
		b += int(p[2]) * w
		at += step
	}
	dst[0], dst[1], dst[2], dst[3] = clip(r), clip(g), clip(b), 255
}

func clip(sum int) byte { return byte(min(max(sum>>weightBits, 0), 255)) }

// bicubic is Keys's kernel with a = −0.5. Conversions keep compilers from fusing products with sums,
// which would round otherwise on some machines.
func bicubic(x float64) float64 {
	const a = -0.5
	switch x = math.Abs(x); {
	case x < 1:
		return float64(float64(float64((a+2)*x)-(a+3))*x*x) + 1
	case x < 2:
		return (float64((float64((x-5)*x)+8)*x) - 4) * a
	}
	return 0
}

func lanczos(x float64) float64 {
	if x < -3 || x >= 3 {
		return 0
	}
	return sinc(x) * sinc(x/3)
}

// sinc returns sin(πx)/(πx). It sums the series itself, because math.Sin differs in the last bit
// between machines.
func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	turns := math.RoundToEven(x)
	y := math.Pi * (x - turns)
	if math.Mod(turns, 2) != 0 {
		y = -y
	}
	sum, term := y, y
	for k := 2.0; k < 24; k += 2 {
		term = float64(-term * y * y / (k * (k + 1)))
		sum += term
	}
	return sum / (math.Pi * x)
}
