package crd

import (
	"fmt"
	"math"
	"slices"
	"time"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/wire/entry"
)

// reviewItem is a stored object in a review. from is the decoded object, of that kind.
type reviewItem struct {
	*pendingConversion
	from *unstructured.Unstructured
	kind schema.GroupVersionKind
}

// convert converts objects to one version, and completes each of them. batch must not be empty.
func (c *webhookConverter) convert(batch []*pendingConversion) {
	completed := map[*pendingConversion]bool{}
	complete := func(p *pendingConversion, result *convertedObject, err error) {
		completed[p] = true
		c.complete(p, result, err)
	}
	defer func() {
		// In a handler a panic is logged and ends the request. In this goroutine it would
		// end the process.
		if r := recover(); r != nil {
			_ = batch[0].codec.served.server.panics().Recovered(panics.Convert, r)
			for _, p := range batch {
				if !completed[p] {
					complete(p, nil, fmt.Errorf("convert %s to %s: panic: %v", p.codec.served.def.Name, p.key.version, r))
				}
			}
		}
	}()
	compiled, err := batch[0].codec.served.schemas()
	if err != nil {
		for _, p := range batch {
			complete(p, nil, err)
		}
		return
	}
	r := &review{compiled: compiled, to: schema.GroupVersion{Group: compiled.group, Version: batch[0].key.version}, complete: complete}
	byKind := map[schema.GroupVersionKind][]reviewItem{}
	var kinds []schema.GroupVersionKind
	for _, p := range batch {
		from, err := r.decode(p)
		if err != nil {
			complete(p, nil, err)
			continue
		}
		kind := from.GroupVersionKind()
		if byKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], reviewItem{p, from, kind})
	}
	for _, kind := range kinds {
		r.convert(byKind[kind])
	}
}

// review converts objects by Kubernetes' converter. So Kubernetes checks the webhook's
// answers, and words the errors.
type review struct {
	compiled *compiledSchemas
	to       schema.GroupVersion
	complete func(*pendingConversion, *convertedObject, error)
}

// decode returns an object as Kubernetes' storage has it before it is converted.
func (r *review) decode(p *pendingConversion) (*unstructured.Unstructured, error) {
	decoder := coercingDecoder{p.codec.inner, coercer{schemas: r.compiled.schemaSet, stored: true}}
	obj, _, err := decoder.Decode(p.stored, nil, &unstructured.Unstructured{})
	if err != nil {
		return nil, err
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("decode stored object: got a %T", obj)
	}
	defaulter{apiextensionsapiserver.Scheme, r.compiled.schemaSet}.Default(u)
	return u, nil
}

// maxSingleFailures bounds how many objects of a failed review are tried alone, as long as
// none of them succeeds.
const maxSingleFailures = 3

// convert converts objects that are stored in one version. The error of a review does not
// say which object failed, and may be worded differently from the error of a single
// object. So after an error the objects are tried one by one, unless the webhook does not
// answer.
func (r *review) convert(batch []reviewItem) {
	began := time.Now()
	err := r.try(batch)
	if err == nil {
		return
	}
	failures := 0
	if len(batch) == 1 || time.Since(began) >= slowReview {
		failures = maxSingleFailures
	}
	for i, p := range batch {
		if failures >= maxSingleFailures {
			r.complete(p.pendingConversion, nil, err)
			continue
		}
		began = time.Now()
		if alone := r.try(batch[i : i+1]); alone != nil {
			r.complete(p.pendingConversion, nil, alone)
			err = alone
			if failures++; time.Since(began) >= slowReview {
				failures = maxSingleFailures
			}
		} else {
			failures = math.MinInt // the webhook works
		}
	}
}

// try sends one review, and completes its objects if all of them are converted.
func (r *review) try(batch []reviewItem) error {
	converted, err := r.send(batch)
	if err != nil {
		return err
	}
	made := make([]*convertedObject, len(batch))
	after := coercer{schemas: r.compiled.schemaSet}
	for i, u := range converted {
		if _, err := after.apply(u); err != nil {
			return err
		}
		content, err := cbor.Marshal(u.Object)
		if err != nil {
			return fmt.Errorf("encode converted object: %w", err)
		}
		made[i] = &convertedObject{kind: batch[i].kind, content: slices.Clip(content), labels: entry.NewAttributes(u.GetLabels(), nil)}
	}
	for i, p := range batch {
		r.complete(p.pendingConversion, made[i], nil)
	}
	return nil
}

// send sends a review by Kubernetes' converter, and returns its objects in order.
func (r *review) send(batch []reviewItem) ([]*unstructured.Unstructured, error) {
	if len(batch) == 1 {
		obj, err := r.compiled.unsafe.ConvertToVersion(batch[0].from, r.to)
		if err != nil {
			return nil, err
		}
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("convert %s: got a %T", batch[0].kind, obj)
		}
		return []*unstructured.Unstructured{u}, nil
	}
	// Errors name the kind of the list, so it gets the kind of the objects.
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(batch[0].kind)
	for _, p := range batch {
		list.Items = append(list.Items, *p.from)
	}
	obj, err := r.compiled.unsafe.ConvertToVersion(list, r.to)
	if err != nil {
		return nil, err
	}
	all, ok := obj.(*unstructured.UnstructuredList)
	if !ok || len(all.Items) != len(batch) {
		return nil, fmt.Errorf("convert %d of %s: got a %T", len(batch), batch[0].kind, obj)
	}
	converted := make([]*unstructured.Unstructured, len(batch))
	for i := range all.Items {
		converted[i] = &all.Items[i]
	}
	return converted, nil
}
