package dataset

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// converter returns the function that turns values of a column into JSON. Numbers stay numbers
// (decimals exactly as written, NaN and infinities as null). Timestamps become RFC 3339 in UTC,
// dates 2006-01-02, times of day 15:04:05, and UUIDs their usual form. Bytes that are
// not declared as text become text if they are UTF-8, else base64. The library's type lacks what it does
// not know; declared has it.
func converter(t parquet.Type, declared *format.SchemaElement) func(parquet.Value) any {
	if _, is := declared.LogicalType.Value.(*format.Float16Type); is {
		return float16
	}
	if c := declared.ConvertedType; c.Valid && c.V == deprecated.Decimal {
		return decimals(int(declared.Scale.V)) // 0 if it is not there
	}
	if l := t.LogicalType(); l != nil {
		switch l := l.Value.(type) {
		case *format.StringType, *format.EnumType, *format.JsonType:
			return text
		case *format.DecimalType:
			return decimals(int(l.Scale))
		case *format.DateType:
			return date
		case *format.TimestampType:
			return timestamps(l.Unit.Value.Duration())
		case *format.TimeType:
			return clock(l.Unit.Value.Duration())
		case *format.UUIDType:
			return uuid
		case *format.IntType:
			if !l.IsSigned {
				return unsigned
			}
		}
	} else if c := t.ConvertedType(); c != nil {
		switch *c {
		case deprecated.UTF8, deprecated.Enum, deprecated.Json:
			return text
		case deprecated.Date:
			return date
		case deprecated.TimestampMillis:
			return timestamps(time.Millisecond)
		case deprecated.TimestampMicros:
			return timestamps(time.Microsecond)
		case deprecated.TimeMillis:
			return clock(time.Millisecond)
		case deprecated.TimeMicros:
			return clock(time.Microsecond)
		case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
			return unsigned
		}
	}
	return physical
}

// physical converts by the physical type.
func physical(v parquet.Value) any {
	switch v.Kind() {
	case parquet.Boolean:
		return v.Boolean()
	case parquet.Int32:
		return v.Int32()
	case parquet.Int64:
		return v.Int64()
	case parquet.Int96:
		return int96(v.Int96())
	case parquet.Float:
		return finite(float64(v.Float()))
	case parquet.Double:
		return finite(v.Double())
	}
	return bytesText(v.ByteArray())
}

func text(v parquet.Value) any { return string(v.ByteArray()) }

func finite(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return f
}

func unsigned(v parquet.Value) any {
	if v.Kind() == parquet.Int32 {
		return v.Uint32()
	}
	return v.Uint64()
}

// float16 returns the value of an IEEE 754 half, little endian.
func float16(v parquet.Value) any {
	b := v.ByteArray()
	if len(b) != 2 {
		return nil
	}
	return half(uint16(b[0]) | uint16(b[1])<<8)
}

// half returns the number with the bits of an IEEE 754 half, nil if it is not finite.
func half(bits uint16) any {
	sign, exp, frac := 1.0, int(bits>>10&31), float64(bits&1023)
	if bits>>15 == 1 {
		sign = -1
	}
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		return nil
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

func date(v parquet.Value) any {
	return time.Unix(int64(v.Int32())*24*60*60, 0).UTC().Format(time.DateOnly)
}

func timestamps(unit time.Duration) func(parquet.Value) any {
	perSecond := int64(time.Second / unit)
	return func(v parquet.Value) any {
		seconds, rest := v.Int64()/perSecond, v.Int64()%perSecond
		return time.Unix(seconds, rest*int64(unit)).UTC().Format(time.RFC3339Nano)
	}
}

func clock(unit time.Duration) func(parquet.Value) any {
	return func(v parquet.Value) any {
		n := v.Int64()
		if v.Kind() == parquet.Int32 {
			n = int64(v.Int32())
		}
		return time.Unix(0, 0).UTC().Add(time.Duration(n) * unit).Format(timeOfDay)
	}
}

// int96 returns the timestamp of old writers: nanoseconds of the day, then the Julian day.
func int96(v deprecated.Int96) any {
	const unixEpoch = 2440588 // Julian day of 1970-01-01
	nanos := int64(uint64(v[1])<<32 | uint64(v[0]))
	return time.Unix((int64(v[2])-unixEpoch)*24*60*60, nanos).UTC().Format(time.RFC3339Nano)
}

func uuid(v parquet.Value) any { return uuidText(v.ByteArray()) }

func uuidText(b []byte) string {
	h := hex.EncodeToString(b)
	if len(h) != 32 {
		return h
	}
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// decimals converts unscaled integers, as bytes in big endian, to decimal numbers.
func decimals(scale int) func(parquet.Value) any {
	return func(v parquet.Value) any {
		unscaled := new(big.Int)
		switch v.Kind() {
		case parquet.Int32:
			unscaled.SetInt64(int64(v.Int32()))
		case parquet.Int64:
			unscaled.SetInt64(v.Int64())
		default:
			b := v.ByteArray()
			unscaled.SetBytes(b)
			if len(b) > 0 && b[0] >= 0x80 { // two's complement
				unscaled.Sub(unscaled, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
		}
		return json.Number(decimalText(unscaled, scale))
	}
}

func decimalText(unscaled *big.Int, scale int) string {
	const most = 100 // digits; decimals have at most 76
	switch {
	case scale == 0 || scale > most || scale < -most:
		return unscaled.String()
	case scale < 0:
		return new(big.Int).Mul(unscaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-scale)), nil)).String()
	}
	digits := new(big.Int).Abs(unscaled).String()
	if short := scale + 1 - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	text := digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	if unscaled.Sign() < 0 {
		text = "-" + text
	}
	return text
}
