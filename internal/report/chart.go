package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// point is a value at a step.
type point struct{ x, y float64 }

// Size of a chart, and of the space around its curves, in pixels of the SVG.
const (
	width, height            = 460, 220
	left, right, top, bottom = 52, 10, 8, 24
)

// most is the number of points of a curve; of longer curves, a point is the mean of its neighbours.
const most = 400

// chart is a drawing with one curve per series.
type chart struct {
	Title   string
	Series  []series
	metrics []string // that it shows
}

// series is one metric of one or several runs.
type series struct {
	Name   string
	Colour int
	runs   [][]point // by run; without points for a run that lacks the metric
}

// same reports whether two series have one name and the same values.
func (s series) same(other series) bool {
	return s.Name == other.Name && slices.EqualFunc(s.runs, other.runs, slices.Equal)
}

// curves are a series' values of each run that has some, and at the steps that all these runs have
// their mean over runs, and the mean plus and minus the standard deviation.
type curves struct {
	runs               [][]point
	mean, lower, upper []point
}

func (s *series) curves() (c curves) {
	at := map[float64][]float64{}
	for _, r := range s.runs {
		if len(r) == 0 {
			continue
		}
		c.runs = append(c.runs, thin(r))
		for _, p := range c.runs[len(c.runs)-1] {
			at[p.x] = append(at[p.x], p.y)
		}
	}
	if len(c.runs) < 2 {
		return c
	}
	for _, p := range c.runs[0] {
		if v := at[p.x]; len(v) == len(c.runs) {
			m, d := spread(v)
			c.mean = append(c.mean, point{p.x, m})
			c.lower, c.upper = append(c.lower, point{p.x, max(m-d, -math.MaxFloat64)}), append(c.upper, point{p.x, min(m+d, math.MaxFloat64)})
		}
	}
	return c
}

// mean returns the mean. Numbers here may be as large as float64 has them, so that sums overflow.
func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}

// spread returns the mean and the sample standard deviation, which is 0 for one value.
func spread(v []float64) (m, deviation float64) {
	m = mean(v)
	for _, x := range v {
		deviation = math.Hypot(deviation, (x-m)/math.Sqrt(max(1, float64(len(v)-1))))
	}
	return m, deviation
}

// thin returns at most most points, which are means of neighbours. The last step keeps its place.
func thin(p []point) []point {
	n := (len(p) + most - 1) / most
	if n < 2 {
		return p
	}
	var out []point
	for some := range slices.Chunk(p, n) {
		y := make([]float64, len(some))
		for i, q := range some {
			y[i] = q.y
		}
		out = append(out, point{some[len(some)-1].x, mean(y)})
	}
	return out
}

// SVG draws the chart. Of several runs it draws a pale curve each, the mean, and a band of one
// standard deviation around the mean.
func (c chart) SVG() template.HTML {
	all := make([]curves, len(c.Series))
	for i := range c.Series {
		all[i] = c.Series[i].curves()
	}
	frame, ok := around(all)
	if !ok {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, width, height, template.HTMLEscapeString(c.Title))
	frame.axes(&b)
	for i, of := range all {
		class := look(c.Series[i].Colour)
		if len(of.mean) > 0 {
			slices.Reverse(of.lower)
			fmt.Fprintf(&b, `<polygon class="band %s" points="%s"/>`, class, frame.place(append(of.upper, of.lower...)))
			for _, r := range of.runs {
				fmt.Fprintf(&b, `<polyline class="pale %s" points="%s"/>`, class, frame.place(r))
			}
			of.runs = [][]point{of.mean}
		}
		for _, r := range of.runs {
			frame.curve(&b, class, r)
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // numbers, constants and an escaped title
}

// Numbers of colours and of dashes that the page's style defines.
const colours, dashes = 6, 3

// look returns the classes of the ith series.
func look(i int) string { return fmt.Sprintf("c%d d%d", i%colours, i/colours%dashes) }

// frame maps values to places in the drawing.
type frame struct{ x0, x1, y0, y1 float64 }

// around returns the frame that holds all curves and bands, and whether there are any.
func around(all []curves) (frame, bool) {
	f := frame{math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)}
	hold := func(x, y float64) {
		f.x0, f.x1, f.y0, f.y1 = min(f.x0, x), max(f.x1, x), min(f.y0, y), max(f.y1, y)
	}
	for _, of := range all {
		for _, r := range of.runs {
			for _, p := range r {
				hold(p.x, p.y)
			}
		}
		for _, p := range slices.Concat(of.lower, of.upper) {
			hold(p.x, p.y)
		}
	}
	if f.x0 > f.x1 {
		return f, false
	}
	if f.x0 == f.x1 {
		f.x0, f.x1 = f.x0-1, f.x1+1
	}
	if f.y0 == f.y1 {
		room := max(math.Abs(f.y0)/10, 1e-6)
		f.y0, f.y1 = max(f.y0-room, -math.MaxFloat64), min(f.y1+room, math.MaxFloat64)
	}
	return f, true
}

func (f frame) at(p point) (x, y float64) {
	return left + (p.x-f.x0)/(f.x1-f.x0)*(width-left-right), top + (f.y1/2-p.y/2)/(f.y1/2-f.y0/2)*(height-top-bottom)
}

// place returns the points of an SVG polyline.
func (f frame) place(points []point) string {
	var b strings.Builder
	for _, p := range points {
		x, y := f.at(p)
		fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
	}
	return strings.TrimSpace(b.String())
}

// curve draws a curve, or dots where there are so few values that one sees each.
func (f frame) curve(b *strings.Builder, class string, points []point) {
	fmt.Fprintf(b, `<polyline class="%s" points="%s"/>`, class, f.place(points))
	if len(points) > 30 {
		return
	}
	for _, p := range points {
		x, y := f.at(p)
		fmt.Fprintf(b, `<circle class="%s" cx="%.1f" cy="%.1f" r="2.5"><title>step %g: %.4g</title></circle>`, class, x, y, p.x, p.y)
	}
}

// axes draws grid lines with their values.
func (f frame) axes(b *strings.Builder) {
	for _, v := range ticks(f.y0, f.y1) {
		_, y := f.at(point{f.x0, v})
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" class="y">%s</text>`,
			left, width-right, y, y, left-6, y+4, label(v))
	}
	for _, v := range ticks(f.x0, f.x1) {
		if v != math.Trunc(v) {
			continue
		}
		x, _ := f.at(point{v, f.y0})
		fmt.Fprintf(b, `<text x="%.1f" y="%d" class="x">%s</text>`, x, height-6, label(v))
	}
}

// ticks returns about five round numbers between lo and hi.
func ticks(lo, hi float64) []float64 {
	quarter := hi/4 - lo/4 // the difference may overflow
	step := math.Pow(10, math.Floor(math.Log10(quarter)))
	for _, factor := range []float64{5, 2} {
		if quarter/(step*factor) >= 0.75 {
			step *= factor
			break
		}
	}
	var out []float64
	for i := math.Ceil(lo / step); i*step <= hi && len(out) < 20; i++ {
		out = append(out, i*step)
	}
	return out
}

// label formats the value of a tick.
func label(v float64) string {
	if math.Abs(v) < 1e-12 {
		return "0"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
