// Package row keeps the rows of Kubernetes' tables (metav1.Table) as bytes with
// holes where time goes on: ages, restarts "3 (5m ago)", the duration of a job
// that still runs. A row is encoded once for each version of its object, and
// written later as Kubernetes would print it at that moment.
//
// A Builder finds out by experiment which cells depend on the time and on which
// timestamp, for any type: it renders copies of an object with other timestamps
// and sees what changes. A cell that it cannot explain is ErrVolatile; the
// caller must then let Kubernetes answer.
//
// A renderer may know the time only by the age of timestamps that the object
// holds as time.Time (metav1.Time, metav1.MicroTime) or, in unstructured
// objects, as RFC 3339 text. The ages must be written by duration.HumanDuration.
// The package does not choose rows for requests and keeps no objects.
package row
