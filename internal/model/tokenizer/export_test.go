package tokenizer

// Test helpers for package tokenizer_test, which may import package model; this package may not.
var (
	CheckReferences = checkReferences
	ReferenceTexts  = referenceTexts
	Gunzip          = gunzip
)
