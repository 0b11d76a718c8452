package dataset

import (
	"errors"
	"reflect"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// registerUUID lets the library give columns of UUIDs as [uuidArray]. An error says that a package of
// the binary has done so before.
var registerUUID = sync.OnceFunc(func() { _ = arrow.RegisterExtensionType(newUUIDType()) })

// uuidType is Arrow's canonical type of UUIDs. The library has it in a package that brings its Parquet
// reader along.
type uuidType struct{ arrow.ExtensionBase }

func newUUIDType() *uuidType {
	return &uuidType{arrow.ExtensionBase{Storage: &arrow.FixedSizeBinaryType{ByteWidth: 16}}}
}

// uuidArray is a column of UUIDs.
type uuidArray struct{ array.ExtensionArrayBase }

// ArrayType implements [arrow.ExtensionType].
func (*uuidType) ArrayType() reflect.Type { return reflect.TypeFor[uuidArray]() }

// ExtensionName implements [arrow.ExtensionType].
func (*uuidType) ExtensionName() string { return "arrow.uuid" }

// ExtensionEquals implements [arrow.ExtensionType].
func (u *uuidType) ExtensionEquals(other arrow.ExtensionType) bool {
	return u.ExtensionName() == other.ExtensionName()
}

// Serialize implements [arrow.ExtensionType].
func (*uuidType) Serialize() string { return "" }

// Deserialize implements [arrow.ExtensionType].
func (*uuidType) Deserialize(storage arrow.DataType, _ string) (arrow.ExtensionType, error) {
	if !arrow.TypeEqual(storage, newUUIDType().Storage) {
		return nil, errors.New("a UUID has 16 bytes")
	}
	return newUUIDType(), nil
}
