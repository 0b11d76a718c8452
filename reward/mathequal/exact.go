package mathequal

import (
	"math/big"
)

// Budgets of exact arithmetic: bits of one number, total work, and the largest n of n!. An
// operation on n words costs n², the cost of reducing a fraction to lowest terms.
const (
	maxBits      = 1 << 16
	maxWork      = 1 << 24
	maxFactorial = 5000
)

// exact returns the rational value of n, if it has one within the budgets.
func (c *comparer) exact(n *node) (*big.Rat, bool) {
	if !c.spend(1) || c.work <= 0 {
		return nil, false
	}
	switch n.op {
	case opNumber:
		return n.num, true
	case opSymbol:
		value := c.values[n.text]
		return value, value != nil
	case opNeg, opPercent, opFactorial:
		a, ok := c.exact(n.args[0])
		if !ok {
			return nil, false
		}
		switch n.op {
		case opNeg:
			return new(big.Rat).Neg(a), true
		case opPercent:
			return c.fits(new(big.Rat).Quo(a, big.NewRat(100, 1)))
		}
		return c.factorial(a)
	case opAdd, opSub, opMul, opDiv, opPow:
		a, ok := c.exact(n.args[0])
		if !ok {
			return nil, false
		}
		b, ok := c.exact(n.args[1])
		if !ok {
			return nil, false
		}
		return c.arithmetic(n.op, a, b)
	case opCall:
		return c.exactCall(n)
	}
	return nil, false
}

func (c *comparer) arithmetic(op operation, a, b *big.Rat) (*big.Rat, bool) {
	switch op {
	case opAdd:
		return c.fits(new(big.Rat).Add(a, b))
	case opSub:
		return c.fits(new(big.Rat).Sub(a, b))
	case opMul:
		return c.fits(new(big.Rat).Mul(a, b))
	case opDiv:
		if b.Sign() == 0 {
			return nil, false
		}
		return c.fits(new(big.Rat).Quo(a, b))
	}
	return c.power(a, b)
}

// power returns a^b for an integer b; 0^b only for a positive b.
func (c *comparer) power(a, b *big.Rat) (*big.Rat, bool) {
	if !b.IsInt() || !b.Num().IsInt64() || a.Sign() == 0 && b.Sign() <= 0 {
		return nil, false
	}
	e := b.Num().Int64()
	if a.IsInt() && a.Num().IsInt64() && (a.Num().Int64() == 1 || a.Num().Int64() == 0) {
		return a, true
	}
	if e > maxBits || e < -maxBits || int64(bits(a))*max(e, -e) > maxBits {
		return nil, false
	}
	exponent := big.NewInt(max(e, -e))
	p := new(big.Rat).SetFrac(new(big.Int).Exp(a.Num(), exponent, nil), new(big.Int).Exp(a.Denom(), exponent, nil))
	if e < 0 {
		p.Inv(p)
	}
	return c.fits(p)
}

func (c *comparer) factorial(a *big.Rat) (*big.Rat, bool) {
	if !a.IsInt() || a.Sign() < 0 || !a.Num().IsInt64() || a.Num().Int64() > maxFactorial {
		return nil, false
	}
	c.charge(a)
	return c.fits(new(big.Rat).SetInt(new(big.Int).MulRange(1, a.Num().Int64())))
}

func (c *comparer) exactCall(n *node) (*big.Rat, bool) {
	a, ok := c.exact(n.args[0])
	if !ok {
		return nil, false
	}
	switch n.text {
	case "abs":
		return new(big.Rat).Abs(a), true
	case "floor":
		return new(big.Rat).SetInt(floor(a)), true
	case "ceil":
		f := floor(new(big.Rat).Neg(a))
		return new(big.Rat).SetInt(f.Neg(f)), true
	case "binom":
		b, ok := c.exact(n.args[1])
		if !ok || !a.IsInt() || !b.IsInt() || a.Sign() < 0 || b.Sign() < 0 ||
			!a.Num().IsInt64() || !b.Num().IsInt64() || a.Num().Int64() > maxFactorial {
			return nil, false
		}
		c.charge(a)
		return c.fits(new(big.Rat).SetInt(new(big.Int).Binomial(a.Num().Int64(), b.Num().Int64())))
	}
	return nil, false
}

// floor returns the largest integer that is at most a. The denominator is positive, so Euclidean
// division rounds down.
func floor(a *big.Rat) *big.Int { return new(big.Int).Div(a.Num(), a.Denom()) }

func bits(a *big.Rat) int { return max(a.Num().BitLen(), a.Denom().BitLen()) }

// charge subtracts n multiplications of n-bit numbers from the budget.
func (c *comparer) charge(n *big.Rat) {
	k := int(n.Num().Int64())
	c.work -= k * (k/64 + 1)
}

// fits charges the number to the budget.
func (c *comparer) fits(a *big.Rat) (*big.Rat, bool) {
	n := bits(a)
	words := n/64 + 1
	c.work -= words * words
	return a, n <= maxBits && c.work > 0
}
