package studio

//go:generate go run ./internal/vendored
