from .export import ADDITIVE as ADDITIVE, BAND as BAND, PAGE_POINTS as PAGE_POINTS, SITE_NAMES as SITE_NAMES, VIEW_NAMES as VIEW_NAMES, cell as cell, columns_named as columns_named, declared_columns as declared_columns, family_words as family_words, formatted as formatted, head_names as head_names, is_number as is_number, latex_points as latex_points
from .load_any import load as load
from .notebook import drawn_html as drawn_html, frame_html as frame_html, table_html as table_html, together as together
from .page.rendering import Cell as Cell, CutQueries as CutQueries, HeadMap as HeadMap, Highlight as Highlight, Overview as Overview, PageTable as PageTable, Section as Section, Stored as Stored, ViewerData as ViewerData, block_maxima as block_maxima, encode_weights as encode_weights, page_table as page_table, render_page as render_page, rows_keeping_largest as rows_keeping_largest
from .page.result_page import Contents as Contents, DrawnFigure as DrawnFigure, Part as Part, ShownTable as ShownTable, Tables as Tables, write_result_page as write_result_page
from .question import Question as Question, declared_tables as declared_tables, own_questions as own_questions, question_named as question_named, questions as questions
from .records import Extra as Extra, PAGE as PAGE, PARETO_FIGURE as PARETO_FIGURE, QuestionFiles as QuestionFiles, ResultRecord as ResultRecord, SCALING_FIGURE as SCALING_FIGURE, STUDY as STUDY, check_file_free as check_file_free, check_free as check_free, check_record_there as check_record_there, files_of as files_of, notes_on_weights as notes_on_weights, older_results as older_results, write_record as write_record
from .report import write_report as write_report
from .result import Result as Result
from .terminal import MOST_ROWS as MOST_ROWS, TerminalTable as TerminalTable, rows_shown as rows_shown
