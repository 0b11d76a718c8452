package dataset

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// arrowValue returns element i of a column as JSON, by the rules of [converter]. Unions and
// intervals are errors.
func arrowValue(column arrow.Array, i int) (any, error) {
	if column.IsNull(i) {
		return nil, nil
	}
	switch a := column.(type) {
	case *array.Null:
		return nil, nil
	case *array.Struct:
		return arrowStruct(a, i)
	case *array.Map: // before ListLike, which it also implements
		return arrowMap(a, i)
	case array.ListLike:
		return arrowList(a, i)
	case *array.Dictionary:
		return arrowValue(a.Dictionary(), a.GetValueIndex(i))
	case *uuidArray:
		return uuidText(a.Storage().(*array.FixedSizeBinary).Value(i)), nil
	case array.ExtensionArray:
		return arrowValue(a.Storage(), i)
	case *array.RunEndEncoded:
		return arrowValue(a.Values(), a.GetPhysicalIndex(i))
	}
	if v, ok := arrowNumber(column, i); ok {
		return v, nil
	}
	if v, ok := arrowText(column, i); ok {
		return v, nil
	}
	return nil, fmt.Errorf("values of the type %s are not read", column.DataType())
}

func arrowNumber(column arrow.Array, i int) (v any, ok bool) {
	switch a := column.(type) {
	case *array.Boolean:
		return a.Value(i), true
	case *array.Int8:
		return a.Value(i), true
	case *array.Int16:
		return a.Value(i), true
	case *array.Int32:
		return a.Value(i), true
	case *array.Int64:
		return a.Value(i), true
	case *array.Uint8:
		return a.Value(i), true
	case *array.Uint16:
		return a.Value(i), true
	case *array.Uint32:
		return a.Value(i), true
	case *array.Uint64:
		return a.Value(i), true
	case *array.Float16:
		return half(a.Value(i).Uint16()), true
	case *array.Float32:
		return finite(float64(a.Value(i))), true
	case *array.Float64:
		return finite(a.Value(i)), true
	case *array.Decimal32:
		return arrowDecimal(a, big.NewInt(int64(a.Value(i)))), true
	case *array.Decimal64:
		return arrowDecimal(a, big.NewInt(int64(a.Value(i)))), true
	case *array.Decimal128:
		return arrowDecimal(a, a.Value(i).BigInt()), true
	case *array.Decimal256:
		return arrowDecimal(a, a.Value(i).BigInt()), true
	}
	return nil, false
}

// arrowDecimal returns a decimal of a column.
func arrowDecimal(column arrow.Array, unscaled *big.Int) any {
	return json.Number(decimalText(unscaled, int(column.DataType().(arrow.DecimalType).GetScale())))
}

func arrowText(column arrow.Array, i int) (v any, ok bool) {
	switch a := column.(type) {
	case *array.String:
		return a.Value(i), true
	case *array.LargeString:
		return a.Value(i), true
	case *array.StringView:
		return a.Value(i), true
	case *array.Binary:
		return bytesText(a.Value(i)), true
	case *array.LargeBinary:
		return bytesText(a.Value(i)), true
	case *array.BinaryView:
		return bytesText(a.Value(i)), true
	case *array.FixedSizeBinary:
		return bytesText(a.Value(i)), true
	case *array.Date32:
		return a.Value(i).ToTime().Format(time.DateOnly), true
	case *array.Date64:
		return a.Value(i).ToTime().Format(time.DateOnly), true
	case *array.Timestamp:
		return a.Value(i).ToTime(a.DataType().(*arrow.TimestampType).Unit).UTC().Format(time.RFC3339Nano), true
	case *array.Time32:
		return a.Value(i).ToTime(a.DataType().(*arrow.Time32Type).Unit).Format(timeOfDay), true
	case *array.Time64:
		return a.Value(i).ToTime(a.DataType().(*arrow.Time64Type).Unit).Format(timeOfDay), true
	}
	return nil, false
}

const timeOfDay = "15:04:05.999999999"

// bytesText returns bytes as text if they are UTF-8, else in base64.
func bytesText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return base64.StdEncoding.EncodeToString(b)
}

func arrowStruct(a *array.Struct, i int) (any, error) {
	t := a.DataType().(*arrow.StructType)
	out := make(map[string]any, a.NumField())
	for k := range a.NumField() {
		v, err := arrowValue(a.Field(k), i)
		if err != nil {
			return nil, err
		}
		out[t.Field(k).Name] = v
	}
	return out, nil
}

func arrowList(a array.ListLike, i int) (any, error) {
	begin, end := a.ValueOffsets(i)
	out := []any{}
	for k := begin; k < end; k++ {
		v, err := arrowValue(a.ListValues(), int(k))
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// arrowMap makes an object of keys and values. See [addKey].
func arrowMap(a *array.Map, i int) (any, error) {
	begin, end := a.ValueOffsets(i)
	out := map[string]any{}
	for k := begin; k < end; k++ {
		key, err := arrowValue(a.Keys(), int(k))
		if err != nil {
			return nil, err
		}
		item, err := arrowValue(a.Items(), int(k))
		if err == nil {
			err = addKey(out, key, item)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
