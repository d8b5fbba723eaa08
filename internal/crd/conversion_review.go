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

	"github.com/millrace/millrace/internal/resource"
)

// reviewItem is a stored object on its way through a review.
type reviewItem struct {
	*pendingConversion
	from *unstructured.Unstructured
	kind schema.GroupVersionKind
}

// convert converts objects to one version and settles each of them.
func (c *webhookConverter) convert(batch []*pendingConversion) {
	settled := map[*pendingConversion]bool{}
	settle := func(p *pendingConversion, made *convertedObject, err error) {
		settled[p] = true
		c.complete(p, made, err)
	}
	defer func() {
		// What panics in a handler is answered and logged there. Here it would be the end
		// of the process.
		if r := recover(); r != nil {
			for _, p := range batch {
				if !settled[p] {
					settle(p, nil, fmt.Errorf("convert %s to %s: panic: %v", p.codec.served.def.Name, p.key.version, r))
				}
			}
		}
	}()
	compiled, err := batch[0].codec.served.schemas()
	if err != nil {
		for _, p := range batch {
			settle(p, nil, err)
		}
		return
	}
	r := &review{compiled: compiled, to: schema.GroupVersion{Group: compiled.group, Version: batch[0].key.version}, complete: settle}
	byKind := map[schema.GroupVersionKind][]reviewItem{}
	var kinds []schema.GroupVersionKind
	for _, p := range batch {
		from, err := r.decode(p)
		if err != nil {
			settle(p, nil, err)
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

// review converts objects by Kubernetes' converter, so what a webhook may answer and
// the words of errors are Kubernetes'.
type review struct {
	compiled *compiledSchemas
	to       schema.GroupVersion
	complete func(*pendingConversion, *convertedObject, error)
}

// decode makes an object as Kubernetes' storage has it before it is converted.
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

// maxSingleFailures bounds how many objects of a failed review are tried alone while none
// succeeds.
const maxSingleFailures = 3

// convert converts objects that are stored in one version. A review that fails does not
// say for which of its objects, and its error may have other words than that of a single
// object. So they are tried one by one then, unless the webhook does not answer at all.
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

// try sends one review and settles its objects if all of them could be converted.
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
		made[i] = &convertedObject{kind: batch[i].kind, content: slices.Clip(content), labels: resource.NewAttributes(u.GetLabels(), nil)}
	}
	for i, p := range batch {
		r.complete(p.pendingConversion, made[i], nil)
	}
	return nil
}

// send has Kubernetes' converter send a review.
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
	// The list has the objects' kind: it is what errors name.
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
