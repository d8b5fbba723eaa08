package encode

import "github.com/millrace/millrace/internal/wire/entry"

// EntryError says which entry could not be decoded or encoded. Its text is the text of Err,
// because it is sent to clients of a watch.
type EntryError struct {
	// Key is the entry's, as in "namespace/name".
	Key string
	Err error
}

// Error implements error.
func (e *EntryError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *EntryError) Unwrap() error { return e.Err }

func entryError(e *entry.Entry, err error) error {
	if err == nil {
		return nil
	}
	return &EntryError{Key: e.Key, Err: err}
}
