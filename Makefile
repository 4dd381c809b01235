# What people run, by name. Everything is also a command of its own: see docs/testing.md.
DATA ?= data  # a folder with adult_train.csv

.PHONY: check test thorough engines browser docs bench

check:
	ruff check .
	ruff format --check .
	mypy

test:
	pytest

thorough:
	pytest -m thorough

engines:
	pytest -m engines --dist loadfile tests/engines

browser:
	pytest -m browser -n0 tests/browser

docs:
	python docs/reference.py
	python docs/architecture.py

bench:
	python benchmarks/speed.py
	python benchmarks/pushdown.py --data $(DATA) adult predicates
	python benchmarks/scaling.py binary --attributes 1000
