// Package encode turns stored bytes into wire bytes that are byte for byte what
// Kubernetes would send, and keeps them for the next reader.
//
// A Form is one media type of one API version of one resource. What it makes
// for a group of neighbouring objects is a segment: the objects as they stand
// inside a LIST, joined by their separator. A LIST is a header, segments with
// separators between them, and a trailer. Segments live in the Memo of the
// cache's leaf that they were made from, within the Budget of the process.
//
// The bytes come from Kubernetes' own encoders: a list of one object is encoded
// and what surrounds the object is cut away. So a form needs to know nothing of
// the type, and a shape that it does not recognise is an error, never a guess.
//
// The package does not choose forms for requests (package read does), and it
// keeps no decoded objects.
package encode
