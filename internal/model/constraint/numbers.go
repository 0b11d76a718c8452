package constraint

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// limits are what a schema says of a number. Bounds are nil where there is none.
type limits struct {
	least, most          *big.Rat
	overLeast, belowMost bool // the bound itself is excluded
	whole                bool
	step                 int64 // for integers: the number is a multiple of it; 0 for none
	places               int   // for others: digits behind the point; -1 for no limit
}

// maxDigits bounds the digits of a bound.
const maxDigits = 30

// maxStep bounds multipleOf for integers.
const maxStep = 1000

// atLeast narrows the lower bound.
func (l *limits) atLeast(x *big.Rat, over bool) {
	if c := 1; l.least == nil || func() bool { c = x.Cmp(l.least); return c > 0 || c == 0 && over }() {
		l.least, l.overLeast = x, over
	}
}

// atMost narrows the upper bound.
func (l *limits) atMost(x *big.Rat, below bool) {
	if c := -1; l.most == nil || func() bool { c = x.Cmp(l.most); return c < 0 || c == 0 && below }() {
		l.most, l.belowMost = x, below
	}
}

// decimal reads a bound.
func decimal(n json.Number) (*big.Rat, error) {
	text := string(n)
	if at := strings.IndexAny(text, "eE"); at >= 0 && len(text)-at > 4 {
		return nil, fmt.Errorf("%s has too many digits; want at most %d", text[:min(len(text), 40)], maxDigits)
	}
	x, ok := new(big.Rat).SetString(text)
	if ok {
		y, _ := new(big.Rat).SetString(digits(x))
		ok = len(digits(x)) <= maxDigits && y.Cmp(new(big.Rat).Abs(x)) == 0
	}
	if !ok {
		return nil, fmt.Errorf("%s has too many digits; want at most %d", text[:min(len(text), 40)], maxDigits)
	}
	return x, nil
}

// digits returns |x| as a decimal without zeros at its end.
func digits(x *big.Rat) string {
	text := new(big.Rat).Abs(x).FloatString(maxDigits + 1)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// split returns the digits before and behind the point of |x|.
func split(x *big.Rat) (before, behind string) {
	before, behind, _ = strings.Cut(digits(x), ".")
	if before == "" {
		before = "0"
	}
	return before, behind
}

// bounded matches the numbers within limits, as decimals without an exponent.
func (b *builder) bounded(l limits) int32 {
	if l.least == nil && l.most == nil && l.step == 0 && l.places < 0 {
		if l.whole {
			return b.whole
		}
		return b.number
	}
	zero := new(big.Rat)
	above, below := all, all // of positive numbers
	under, over := all, all  // of the absolute values of negative ones
	if x := l.least; x != nil {
		if c := x.Cmp(zero); c > 0 || c == 0 && l.overLeast {
			above, under = b.ge(x, l.overLeast), none
		} else {
			under = b.le(x, l.overLeast)
		}
	}
	if x := l.most; x != nil {
		if c := x.Cmp(zero); c < 0 || c == 0 && l.belowMost {
			below, over = none, b.ge(x, l.belowMost)
		} else {
			below = b.le(x, l.belowMost)
		}
	}
	form := b.decimals(l)
	if l.step > 0 {
		form = b.and(form, b.multiples(l.step))
	}
	positive := b.and(form, above, below)
	negative := none
	if l.least == nil || l.least.Cmp(zero) < 0 {
		negative = b.and(form, under, over)
	}
	return b.unit(b.alt(b.alive(positive), b.cat(b.literal("-"), b.alive(negative))), unitPlain)
}

// alive returns a node, or none if it matches nothing.
func (b *builder) alive(id int32) int32 {
	if b.nodes[id].logic && !b.live(id) {
		return none
	}
	return id
}

// decimals matches all numbers without a sign and an exponent, of the form that limits ask for. One with a
// fraction has no more digits than a float64 tells apart, or those of a bound: with more, a reader of floats
// might see the bound where the number is below it.
func (b *builder) decimals(l limits) int32 {
	long, precise, behind := wholeDigits, wholeDigits, fractionDigits
	for _, x := range []*big.Rat{l.least, l.most} {
		if x != nil {
			whole, fraction := split(x)
			long, precise, behind = max(long, len(whole)), max(precise, len(whole)+len(fraction)), max(behind, len(fraction))
		}
	}
	if l.places >= 0 {
		behind = l.places
	}
	digits := b.rep(b.digit(), 0, int32(long-1))
	before := b.alt(b.literal("0"), b.cat(b.span('1', '9'), digits))
	if l.whole || behind == 0 {
		return before
	}
	fraction := b.cat(b.literal("."), b.rep(b.digit(), 1, int32(behind)))
	few := b.rep(b.oneOf(".0123456789"), 0, int32(precise)+1)
	return b.alt(before, b.cat(b.literal("0"), fraction), b.and(b.seq(b.span('1', '9'), digits, fraction), few))
}

// rest matches n digits, and any fraction behind them.
func (b *builder) rest(n int) int32 {
	return b.cat(b.rep(b.digit(), int32(n), int32(n)), b.option(b.cat(b.literal("."), b.rep(b.digit(), 1, unlimited))))
}

func (b *builder) digit() int32 { return b.span('0', '9') }

// from matches a digit of a range, which may be empty.
func (b *builder) from(lo, hi byte) int32 {
	if lo > hi {
		return none
	}
	return b.span(lo, hi)
}

// ge matches the decimals without a sign that are at least |x|, or more if over is set.
func (b *builder) ge(x *big.Rat, over bool) int32 {
	before, behind := split(x)
	point := b.literal(".")
	// digits behind the point, of numbers whose digits before it are those of x
	out := b.rep(b.digit(), 0, unlimited)
	if over {
		out = b.seq(b.rep(b.literal("0"), 0, unlimited), b.span('1', '9'), out)
	}
	for i := len(behind) - 1; i >= 0; i-- {
		d := behind[i]
		out = b.alt(b.cat(b.span(d, d), out), b.cat(b.from(d+1, '9'), b.rep(b.digit(), 0, unlimited)))
	}
	out = b.cat(point, out)
	if behind == "" && !over {
		out = b.option(out)
	}
	for i := len(before) - 1; i >= 0; i-- {
		d := before[i]
		out = b.alt(b.cat(b.span(d, d), out), b.cat(b.from(d+1, '9'), b.rest(len(before)-1-i)))
	}
	longer := b.seq(b.span('1', '9'), b.rep(b.digit(), int32(len(before)), unlimited), b.rest(0))
	return b.alt(out, longer)
}

// le matches the decimals without a sign that are at most |x|, or less if below is set.
func (b *builder) le(x *big.Rat, below bool) int32 {
	before, behind := split(x)
	out := b.rep(b.literal("0"), 0, unlimited)
	if below {
		out = none
	}
	for i := len(behind) - 1; i >= 0; i-- {
		d := behind[i]
		out = b.alt(b.cat(b.span(d, d), out), b.cat(b.from('0', d-1), b.rep(b.digit(), 0, unlimited)))
		if i > 0 {
			out = b.option(out)
		}
	}
	out = b.cat(b.literal("."), out)
	if behind != "" || !below {
		out = b.option(out)
	}
	for i := len(before) - 1; i >= 0; i-- {
		d, least := before[i], byte('0')
		if i == 0 && len(before) > 1 {
			least = '1'
		}
		out = b.alt(b.cat(b.span(d, d), out), b.cat(b.from(least, d-1), b.rest(len(before)-1-i)))
	}
	if len(before) == 1 {
		return out
	}
	shorter := b.alt(b.literal("0"), b.cat(b.span('1', '9'), b.rep(b.digit(), 0, int32(len(before)-2))))
	return b.alt(out, b.cat(shorter, b.rest(0)))
}

// multiples matches the digits of the multiples of n.
func (b *builder) multiples(n int64) int32 {
	refs := make([]int32, n)
	for r := range n {
		refs[r] = b.declare(r == 0)
	}
	for r := range n {
		out := none
		if r == 0 {
			out = empty
		}
		for d := range int64(10) {
			out = b.alt(out, b.cat(b.span(byte('0'+d), byte('0'+d)), refs[(10*r+d)%n]))
		}
		b.define(refs[r], out)
	}
	return refs[0]
}
