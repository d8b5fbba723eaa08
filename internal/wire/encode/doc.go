// Package encode turns stored bytes into wire bytes that are byte for byte what Kubernetes
// would send, and keeps them for the next reader.
//
// A Form is how objects of one API version of one resource are sent. It has a media type. It is
// for whole objects, metadata or rows of a table, and for a LIST or a WATCH. What it makes of a
// group of neighbouring objects is a segment: the objects as they stand inside a LIST, joined by
// their separator.
//
// A LIST is a header, segments with separators between them, and a trailer. A WATCH is frames; its
// initial events are segments of frames.
//
// Items come from Kubernetes' own encoders: a list of one object is encoded, and what
// surrounds the object is cut away. A frame has the object as a GET answers it. So a form needs
// to know nothing of the type, and a shape that it does not recognise is an error (ErrShape),
// never a guess. The cost is that an item is encoded together with an empty list around it.
//
// Two kinds of forms do without the encoder for most objects. A transcoder (package transcode)
// writes objects from their stored bytes. The encoder is what it is compared with. A verbatim
// form (NewVerbatimForm) sends objects as another API server has sent them, and encodes none.
//
// # What the caller does
//
// A process makes one Budget and one RecentFrames for all its forms. A route makes each of its
// forms once, because memos find their slots by the form's address. It calls SetModel before a
// form is used, or never. The cache's writer tells memos what becomes of their leaves.
// Memo.Succeed is for a leaf that replaces another, InheritFrom for a leaf that was split off,
// and Retire for a leaf that is removed.
//
// # Where bytes are kept
//
//	 leaf of the cache's tree: a group of neighbouring entries
//	  │ owns
//	  ▼
//	Memo ──► slot for each Form ──┬─► cell plain ─────┐
//	  │                           ├─► cell deflate ───┤
//	  │                           ├─► cell zstd ──────┼──► Budget: queues plain and compressed
//	  │                           ├─► cells singles ──┘     (CLOCK empties cells)
//	  │                           └─► build: weak pointers ◄── transient queue of large segments
//	  └─► inherited slots of the leaf that this one replaced: sources to copy from
//
//	 event of the log
//	  │ owns
//	  ▼
//	Frames ──► frameCell for each Form ──► build: weak pointer to a Frame ◄── RecentFrames
//	           and type of event
//
// A memo owns its slots, and a slot its cells. A cell owns a segment until the budget evicts
// it, the memo drops it, or the leaf leaves the tree without a successor. Then only readers hold
// the segment, and the garbage collector frees it after the last of them. The bytes of these
// segments and of frames are immutable, so readers share them without a lock and without a count
// of references.
//
// Plain segments are kept while there is room. A slot also keeps the coding that a client
// asked for. When less than an eighth of the budget is left (Budget.tight), it keeps the zstd
// segment, from which the plain one is decompressed. It keeps none of a group whose fingerprints
// are known, which is spliced faster. singles hold items that were asked for alone, until the
// whole group is kept.
//
// Some segments are passed to their first reader in pooled buffers (Form.pass). Their objects are
// written without the encoder, they are not large, and nothing is kept of them. Each later LIST
// keeps a share of such segments.
//
// Segments of large objects are not kept plain. Readers share them by weak pointers, and the
// transient queue keeps the newest alive. segmentAdmission bounds how many of their bytes
// readers have at the same time.
//
// When an object changes, the cache makes a new leaf. Its memo inherits the slots of the
// old one, copies the items that did not change when it is first read, and drops the rest.
//
// A Piece is for documents, which have no Form: it is a part of one, compressed apart.
//
// The package does not choose forms for requests (package read does), and it keeps no
// decoded objects.
package encode
