// Package storedjson reads and writes JSON in the form in which Kubernetes stores
// objects, without decoding it.
//
// Kubernetes encodes each object that it stores with encoding/json. Its text is
// therefore canonical in this package's sense: it has no blanks between tokens, and no
// object has a field twice. Names of Kubernetes' own fields have no escapes. A reader that
// may rely on this finds a value in a definition of a megabyte in a twentieth of a
// decoder's time. It needs no memory except for the positions that it keeps.
//
//	stored bytes ──> Lexer ──> parts of those bytes ──> Writer ──> JSON
//	                   │
//	                   └─ not canonical: the caller has Kubernetes' code decode the object
//
// The Lexer checks the form and not the grammar: it takes well-formed JSON for granted.
// Etcd's contents were encoded by a Kubernetes server or decoded by one before they came
// here. For other text the Lexer's results are meaningless, but it neither panics nor
// reads beyond the text. Callers must therefore never use this package to validate what a
// client sends.
//
// What is not canonical is no error. A caller must have another way to read such text, as a
// rule Kubernetes' own decoder. The cost of the package is that it must be compared with
// encoding/json: FuzzAgainstEncodingJSON does so.
package storedjson
